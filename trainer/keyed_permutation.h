// A random permutation of 0 .. size - 1 that is computed, not stored: a Feistel network on just enough bits, walked
// until it falls into the range again (Black and Rogaway 2002). A few tens of nanoseconds an element. Immutable.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "store/error.h"
#include "trainer/random.h"

namespace shoal {

class KeyedPermutation {
 public:
  // The key is the next few numbers of `random`; size > 0.
  KeyedPermutation(std::uint64_t size, RandomStream random)
      : size_(size), half_bits_((static_cast<unsigned>(std::bit_width(size - 1)) + 1) / 2) {
    SHOAL_CHECK(size > 0);
    for (std::uint32_t& key : keys_) key = random();
  }

  std::uint64_t operator()(std::uint64_t index) const {
    // The network permutes less than 4 times as many numbers as there are, so this takes below 4 turns on average.
    do {
      index = encipher(index);
    } while (index >= size_);
    return index;
  }

 private:
  static constexpr int kRounds = 6;

  std::uint64_t encipher(std::uint64_t index) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = index >> half_bits_;
    std::uint64_t right = index & mask;
    for (const std::uint32_t key : keys_) {
      const std::uint64_t mixed = left ^ (scramble(static_cast<std::uint32_t>(right) ^ key) & mask);
      left = right;
      right = mixed;
    }
    return left << half_bits_ | right;
  }

  // MurmurHash3's finalizer: every bit of the input reaches every bit of the output.
  static std::uint32_t scramble(std::uint32_t x) {
    x ^= x >> 16;
    x *= 0x85EBCA6B;
    x ^= x >> 13;
    x *= 0xC2B2AE35;
    return x ^ x >> 16;
  }

  std::uint64_t size_;
  unsigned half_bits_;
  std::array<std::uint32_t, kRounds> keys_{};
};

}  // namespace shoal
