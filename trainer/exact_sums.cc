#include "trainer/exact_sums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "pipeline/vector_clones.h"
#include "trainer/fixed_point.h"

namespace shoal {
namespace {

constexpr std::size_t kChunkFloats = 4096;
constexpr float kFineLimit = 1024;
constexpr double kCoarseScale = 0x1p13;  // float32's steps from kFineLimit on are 2^-13 and more

// As fine as the sum over all vectors and the conversion allow.
double fine_scale(std::uint64_t vectors) {
  return std::ldexp(1.0, std::min(41, 52 - static_cast<int>(std::bit_width(vectors))));
}

double coarse_limit(std::uint64_t vectors) {
  return std::ldexp(1.0, std::min(38, 50 - static_cast<int>(std::bit_width(vectors))));
}

SHOAL_VECTOR_CLONES bool all_fine(const float* __restrict values, std::size_t size) {
  std::uint32_t others = 0;
  for (std::size_t k = 0; k < size; ++k) others |= static_cast<std::uint32_t>(!(std::abs(values[k]) < kFineLimit));
  return others == 0;
}

SHOAL_VECTOR_CLONES void add_fine(const float* __restrict values, std::int64_t* __restrict sums, std::size_t size,
                                  double scale) {
  for (std::size_t k = 0; k < size; ++k) sums[k] += to_fixed_point(static_cast<double>(values[k]) * scale);
}

}  // namespace

ExactSums::ExactSums(std::size_t size, std::uint64_t vectors)
    : scale_(fine_scale(vectors)),
      limit_(coarse_limit(vectors)),
      fine_(size, 0),
      coarse_(size, 0),
      chunk_mutexes_(std::make_unique<std::mutex[]>(size / kChunkFloats + 1)) {}

void ExactSums::clear() {
  std::ranges::fill(fine_, 0);
  if (any_coarse_) std::ranges::fill(coarse_, 0);
  any_coarse_ = exceeded_ = false;
}

bool ExactSums::add(std::span<const float> values, std::size_t first) {
  bool good = true;
  for (std::size_t k = 0; k < values.size();) {
    const std::size_t at = first + k;
    const std::size_t count = std::min(values.size() - k, kChunkFloats - at % kChunkFloats);
    const std::scoped_lock lock(chunk_mutexes_[at / kChunkFloats]);
    if (all_fine(values.data() + k, count)) {
      add_fine(values.data() + k, fine_.data() + at, count, scale_);
    } else {
      any_coarse_ = true;
      for (std::size_t i = 0; i < count; ++i) {
        const double value = values[k + i];
        if (std::abs(value) < static_cast<double>(kFineLimit)) {
          fine_[at + i] += to_fixed_point(value * scale_);
        } else if (std::abs(value) < limit_) {
          coarse_[at + i] += to_fixed_point(value * kCoarseScale);
        } else {
          good = false;
        }
      }
    }
    k += count;
  }
  if (!good) exceeded_ = true;
  return good;
}

void ExactSums::add_ranks(const std::function<void(std::span<std::int64_t>)>& sum) {
  std::array<std::int64_t, 2> flags{any_coarse_ ? 1 : 0, exceeded_ ? 1 : 0};
  sum(flags);
  any_coarse_ = flags[0] != 0;
  exceeded_ = flags[1] != 0;
  sum(fine_);
  if (any_coarse_) sum(coarse_);
}

double ExactSums::sum(std::size_t element) const {
  if (exceeded_) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(fine_[element]) / scale_ + static_cast<double>(coarse_[element]) / kCoarseScale;
}

}  // namespace shoal
