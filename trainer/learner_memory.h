// What learning takes beyond --ram: LibTorch itself, and the activations of the workers' learners. For the planner.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/experiment.h"

namespace shoal {

// LibTorch's libraries, the program, and what both allocate before the first node: measured on Debian 12, LibTorch
// 1.13, with 1 to 4 threads.
inline constexpr std::uint64_t kLibraryBytes = std::uint64_t{160} << 20;

// The MPI library, its buffers and the communication thread, where ranks are several.
inline constexpr std::uint64_t kMpiBytes = std::uint64_t{15} << 20;

struct LearnerMemory {
  std::uint64_t host_bytes = 0;  // of all workers together
  std::string formula;
  std::uint64_t device_bytes = 0;  // 0: the host computes
  std::string device_formula;
  std::uint64_t untouched_bytes = 0;  // of what Requirements sets aside
  std::string untouched_formula;
};

LearnerMemory learner_memory(const Experiment& experiment);

}  // namespace shoal
