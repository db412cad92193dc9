#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <malloc.h>

#include "trainer/model.h"

namespace shoal {
namespace {

// at::set_num_threads does not reach OpenBLAS, and with its own default two workers run at half speed. Which BLAS
// LibTorch was linked with is not ours to choose, hence by name.
void set_blas_threads(unsigned threads) {
  using SetThreads = void (*)(int);
  const auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set != nullptr) set(static_cast<int>(threads));
}

}  // namespace

void prepare_tensor_library(unsigned intra_op_threads) {
  // LibTorch frees its activations after each step; by default the next step maps and faults them in again.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
  set_blas_threads(intra_op_threads);
  at::set_num_threads(static_cast<int>(intra_op_threads));
}

// The OpenMP setting behind this call belongs to the thread that makes it.
void prepare_worker_thread(unsigned intra_op_threads) { at::set_num_threads(static_cast<int>(intra_op_threads)); }

}  // namespace shoal
