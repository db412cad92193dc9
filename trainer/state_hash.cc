#include "trainer/state_hash.h"

#include <fmt/format.h>
#define XXH_STATIC_LINKING_ONLY  // the state on the stack
#include <xxhash.h>

namespace shoal {

void StateHash::add(NodeId node, const StateLayout& layout, const std::byte* public_state,
                    const std::byte* private_state) {
  XXH3_state_t state;
  XXH3_128bits_reset_withSeed(&state, node);
  for (const TensorPlace& place : layout.tensors()) {
    const std::byte* const record = place.spec.part == Part::kPublic ? public_state : private_state;
    XXH3_128bits_update(&state, record + place.offset, place.bytes);
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  low_ += hash.low64;
  high_ += hash.high64;
}

void StateHash::add(const StateHash& other) {
  low_ += other.low_;
  high_ += other.high_;
}

StateHash StateHash::from_numbers(std::array<std::int64_t, 2> numbers) {
  StateHash hash;
  hash.low_ = static_cast<std::uint64_t>(numbers[0]);
  hash.high_ = static_cast<std::uint64_t>(numbers[1]);
  return hash;
}

std::string StateHash::text() const { return fmt::format("{:016x}{:016x}", high_, low_); }

}  // namespace shoal
