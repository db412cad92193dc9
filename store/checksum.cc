#include "store/checksum.h"

#include <xxh_x86dispatch.h>

#include "store/checksum_avx2.h"
#include "store/error.h"

namespace shoal {
namespace {

const bool kAvx2 = __builtin_cpu_supports("avx2") != 0;

}  // namespace

std::uint64_t xxh3(const void* data, std::size_t bytes, std::uint64_t seed) {
  return kAvx2 ? xxh3_avx2(data, bytes, seed) : XXH3_64bits_withSeed(data, bytes, seed);
}

Xxh3InPieces::Xxh3InPieces() : state_(XXH3_createState(), [](XXH3_state_s* state) { XXH3_freeState(state); }) {
  SHOAL_CHECK(state_ != nullptr);
}

void Xxh3InPieces::begin(std::uint64_t seed) { XXH3_64bits_reset_withSeed(state_.get(), seed); }

void Xxh3InPieces::add(const void* data, std::size_t bytes) {
  if (kAvx2) {
    xxh3_update_avx2(state_.get(), data, bytes);
  } else {
    XXH3_64bits_update(state_.get(), data, bytes);
  }
}

std::uint64_t Xxh3InPieces::digest() const { return XXH3_64bits_digest(state_.get()); }

}  // namespace shoal
