// Means and scaled samples are fractions; what they count is whole.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace shoal {

inline std::uint64_t whole(double value) { return static_cast<std::uint64_t>(std::llround(std::max(0.0, value))); }

}  // namespace shoal
