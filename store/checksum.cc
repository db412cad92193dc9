#include "store/checksum.h"

#include <xxh_x86dispatch.h>

#include "store/checksum_copies.h"
#include "store/error.h"

namespace shoal {
namespace {

Xxh3Copy best_copy() {
  __builtin_cpu_init();
  if (__builtin_cpu_is("amd") && __builtin_cpu_supports("avx512f")) return xxh3_avx512();
  if (__builtin_cpu_supports("avx2")) return xxh3_avx2();
  return {
      [](const void* data, std::size_t bytes, std::uint64_t seed) { return XXH3_64bits_withSeed(data, bytes, seed); },
      [](void* state, const void* data, std::size_t bytes) {
        XXH3_64bits_update(static_cast<XXH3_state_t*>(state), data, bytes);
      }};
}

const Xxh3Copy kXxh3 = best_copy();

}  // namespace

std::uint64_t xxh3(const void* data, std::size_t bytes, std::uint64_t seed) { return kXxh3.hash(data, bytes, seed); }

Xxh3InPieces::Xxh3InPieces() : state_(XXH3_createState(), [](XXH3_state_s* state) { XXH3_freeState(state); }) {
  SHOAL_CHECK(state_ != nullptr);
}

void Xxh3InPieces::begin(std::uint64_t seed) { XXH3_64bits_reset_withSeed(state_.get(), seed); }

void Xxh3InPieces::add(const void* data, std::size_t bytes) { kXxh3.update(state_.get(), data, bytes); }

std::uint64_t Xxh3InPieces::digest() const { return XXH3_64bits_digest(state_.get()); }

}  // namespace shoal
