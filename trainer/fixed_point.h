// Floating point to fixed point, in a way that compilers turn into vector instructions.
#pragma once

#include <bit>
#include <cstdint>

namespace shoal {

// Adding it moves an integer into the low bits of a double: a conversion that vectorises without AVX-512.
inline constexpr double kFixedPointShift = 0x1.8p52;

// The nearest integer; for |value| below 2^51.
inline std::int64_t to_fixed_point(double value) {
  return std::bit_cast<std::int64_t>(value + kFixedPointShift) - std::bit_cast<std::int64_t>(kFixedPointShift);
}

}  // namespace shoal
