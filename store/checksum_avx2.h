// For checksum.cc alone, and only on a processor with AVX2. The state is an XXH3_state_t of libxxhash, whose header is
// of the same version.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shoal {

std::uint64_t xxh3_avx2(const void* data, std::size_t bytes, std::uint64_t seed);
void xxh3_update_avx2(void* state, const void* data, std::size_t bytes);

}  // namespace shoal
