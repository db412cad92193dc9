// A sum that does not depend on the order of its terms: fixed point, so additions are exact and can be undone.
//
// Metrics over all nodes use it: the same digits for any number of threads and ranks.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace shoal {

class FixedSum {
 public:
  // Terms to 2^-40; |term| below 2^60, and at most 2^26 of them. Anything else makes the sum a NaN for good.
  void add(double term) { add_scaled(term, 1); }
  void remove(double term) { add_scaled(term, -1); }
  void add(const FixedSum& other) {
    sum_ += other.sum_;
    broken_ |= other.broken_;
  }
  // As numbers that are added up one by one, wherever the other terms are, and put together again.
  static constexpr std::size_t kLimbs = 5;
  std::array<std::int64_t, kLimbs> limbs() const {
    std::array<std::int64_t, kLimbs> parts{};
    for (unsigned k = 0; k < 4; ++k) parts[k] = static_cast<std::int64_t>(static_cast<std::uint32_t>(sum_ >> (32 * k)));
    parts[4] = broken_ ? 1 : 0;
    return parts;
  }
  template <typename Limbs>
  static FixedSum from_limbs(const Limbs& parts) {
    FixedSum result;
    for (unsigned k = 4; k-- > 0;) result.sum_ = (result.sum_ << 32) + parts[k];
    result.broken_ = parts[4] != 0;
    return result;
  }
  double value() const {
    return broken_ ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(sum_) * 0x1p-40;
  }

 private:
  __extension__ typedef __int128 Wide;

  void add_scaled(double term, int sign) {
    if (!(std::abs(term) < 0x1p60)) {
      broken_ = true;
      return;
    }
    sum_ += sign * static_cast<Wide>(term * 0x1p40);
  }

  Wide sum_ = 0;
  bool broken_ = false;
};

}  // namespace shoal
