// Compiled with -mavx2: nothing may be included that others compile without it, since the linker keeps one copy of an
// inline function for all of them. xxhash.h makes everything of its own static here.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "store/checksum_avx2.h"

namespace shoal {

std::uint64_t xxh3_avx2(const void* data, std::size_t bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

void xxh3_update_avx2(void* state, const void* data, std::size_t bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state), data, bytes);
}

}  // namespace shoal
