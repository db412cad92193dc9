// Compiled with -mavx2 -mfma (CMakeLists.txt). Calls no inline function of the standard library: the linker might take
// this copy of it for the whole program, and that must run without AVX2.
#include "trainer/lenet5_kernels.h"

namespace shoal::lenet5 {
namespace {

// Eight floats wherever they lie.
using Vector [[gnu::vector_size(32), gnu::aligned(4), gnu::may_alias]] = float;
using Mask [[gnu::vector_size(32), gnu::aligned(4), gnu::may_alias]] = std::int32_t;
using Bytes [[gnu::vector_size(8), gnu::aligned(1), gnu::may_alias]] = std::uint8_t;

inline const Vector& at(const float* p) { return *reinterpret_cast<const Vector*>(p); }
inline Vector& at(float* p) { return *reinterpret_cast<Vector*>(p); }

// ReLU and 2 x 2 pooling of four vectors of channels. As in LibTorch the first of equal values wins; written so that a
// NaN is not lost (all four are NaN where a weight is).
inline void pool(const Vector* upper, const Vector* lower, Vector& largest, Bytes& place) {
  Vector best = upper[0];
  Mask which = {};
  const Vector others[3] = {upper[1], lower[0], lower[1]};
  for (std::int32_t i = 0; i < 3; ++i) {
    const Mask keep = others[i] <= best;
    best = keep ? best : others[i];
    which = keep ? which : Mask{} + (i + 1);
  }
  largest = best <= 0 ? Vector{} : best;
  place = __builtin_convertvector(which, Bytes);
}

template <std::size_t kChannels>
void forward_first(const PackedWeights& weights, const float* input, ImageTrace& trace) {
  constexpr std::size_t kRow = kSide * kChannels;
  for (std::size_t y = 0; y < kPooled1; ++y) {
    for (std::size_t x = 0; x < kPooled1; x += 2) {  // two windows: eight sums keep the FMA units busy
      Vector sums[2][4];
      for (auto& row : sums) {
        for (Vector& sum : row) sum = at(weights.bias1);
      }
      const float* corner = input + 2 * y * kRow + 2 * x * kChannels;
      const float* weight = weights.conv1;
      for (std::size_t ky = 0; ky < kKernel; ++ky, corner += kRow) {
        for (std::size_t k = 0; k < kKernel * kChannels; ++k, weight += kLanes) {
          const Vector w = at(weight);
          for (std::size_t r = 0; r < 2; ++r) {
            for (std::size_t c = 0; c < 4; ++c) sums[r][c] += w * corner[r * kRow + c * kChannels + k];
          }
        }
      }
      for (std::size_t i = 0; i < 2; ++i) {
        const std::size_t window = y * kPooled1 + x + i;
        Vector largest;
        pool(&sums[0][2 * i], &sums[1][2 * i], largest, *reinterpret_cast<Bytes*>(trace.place1 + window * kLanes));
        at(trace.map1 + window * kOut1) = largest;  // two lanes too many; the next window overwrites them
      }
    }
  }
}

inline void forward_second(const PackedWeights& weights, ImageTrace& trace, float* features) {
  constexpr std::size_t kRow = kPooled1 * kOut1;
  for (std::size_t y = 0; y < kPooled2; ++y) {
    for (std::size_t x = 0; x < kPooled2; ++x) {
      Vector sums[2][2][2];  // [half of the channels][row][column]
      for (std::size_t half = 0; half < 2; ++half) {
        for (auto& row : sums[half]) {
          for (Vector& sum : row) sum = at(weights.bias2 + half * kLanes);
        }
      }
      const float* corner = trace.map1 + 2 * y * kRow + 2 * x * kOut1;
      const float* weight = weights.conv2;
      for (std::size_t ky = 0; ky < kKernel; ++ky, corner += kRow) {
        for (std::size_t k = 0; k < kKernel * kOut1; ++k, weight += kOut2) {
          const Vector low = at(weight);
          const Vector high = at(weight + kLanes);
          for (std::size_t r = 0; r < 2; ++r) {
            for (std::size_t c = 0; c < 2; ++c) {
              const float pixel = corner[r * kRow + c * kOut1 + k];
              sums[0][r][c] += low * pixel;
              sums[1][r][c] += high * pixel;
            }
          }
        }
      }
      const std::size_t window = y * kPooled2 + x;
      for (std::size_t half = 0; half < 2; ++half) {
        Vector largest;
        auto& place = *reinterpret_cast<Bytes*>(trace.place2 + window * kOut2 + half * kLanes);
        pool(sums[half][0], sums[half][1], largest, place);
        for (std::size_t i = 0; i < kLanes; ++i) features[(half * kLanes + i) * kWindows2 + window] = largest[i];
      }
    }
  }
}

template <std::size_t kChannels>
void forward(const PackedWeights& weights, const float* input, ImageTrace& trace, float* features) {
  forward_first<kChannels>(weights, input, trace);
  forward_second(weights, trace, features);
}

// The twenty vectors of a patch do not fit the registers: ten at a time.
constexpr std::size_t kRowVectors2 = kPatchRow2 / kLanes;
constexpr std::size_t kHalfPatch2 = kKernel * kRowVectors2 / 2;

constexpr std::size_t kRow2 = kPooled1 * kOut1;
constexpr std::size_t patch_offset2(std::size_t vector) {
  return vector / kRowVectors2 * kRow2 + vector % kRowVectors2 * kLanes;
}

// Where in the first map the largest of a window of the second pooling lies.
inline std::size_t winner2(std::size_t window, std::size_t place) {
  return (2 * (window / kPooled2) + place / 2) * kRow2 + (2 * (window % kPooled2) + place % 2) * kOut1;
}

template <std::size_t kFirst>
void add_half_patches2(const float* map1, const std::size_t* winners, const float* slopes, float* patch) {
  Vector sums[kHalfPatch2];
  for (std::size_t i = 0; i < kHalfPatch2; ++i) sums[i] = at(patch + (kFirst + i) * kLanes);
  for (std::size_t window = 0; window < kWindows2; ++window) {
    const float slope = slopes[window];
    const float* const corner = map1 + winners[window];
    for (std::size_t i = 0; i < kHalfPatch2; ++i) sums[i] += slope * at(corner + patch_offset2(kFirst + i));
  }
  for (std::size_t i = 0; i < kHalfPatch2; ++i) at(patch + (kFirst + i) * kLanes) = sums[i];
}

inline void second_weights(const ImageTrace& trace, const float* slopes, ConvolutionGradient& gradient) {
  for (std::size_t out = 0; out < kOut2; ++out) {
    std::size_t winners[kWindows2];
    float bias = 0;
    for (std::size_t window = 0; window < kWindows2; ++window) {
      winners[window] = winner2(window, trace.place2[window * kOut2 + out]);
      bias += slopes[out * kWindows2 + window];
    }
    gradient.bias2[out] += bias;
    float* const patch = gradient.patch2 + out * kKernel * kPatchRow2;
    add_half_patches2<0>(trace.map1, winners, slopes + out * kWindows2, patch);
    add_half_patches2<kHalfPatch2>(trace.map1, winners, slopes + out * kWindows2, patch);
  }
}

template <std::size_t kFirst>
void spread_half_patch2(const float* const* patches, const float* slopes, std::size_t count, float* corner) {
  Vector sums[kHalfPatch2] = {};
  for (std::size_t entry = 0; entry < count; ++entry) {
    const float slope = slopes[entry];
    const float* const patch = patches[entry] + kFirst * kLanes;
    for (std::size_t i = 0; i < kHalfPatch2; ++i) sums[i] += slope * at(patch + i * kLanes);
  }
  for (std::size_t i = 0; i < kHalfPatch2; ++i) at(corner + patch_offset2(kFirst + i)) += sums[i];
}

// The slopes of the first map. The channels whose largest value lies at the same place of a window share their patch,
// so it is summed in registers and added to memory once.
inline void first_map(const PackedWeights& weights, const ImageTrace& trace, const float* slopes, float* map_slopes) {
  for (std::size_t window = 0; window < kWindows2; ++window) {
    const float* patches[4][kOut2];
    float patch_slopes[4][kOut2];
    std::size_t counts[4] = {};
    for (std::size_t out = 0; out < kOut2; ++out) {
      const float slope = slopes[out * kWindows2 + window];
      const std::size_t place = trace.place2[window * kOut2 + out];
      std::size_t& count = counts[place];
      patches[place][count] = weights.patch2 + out * kKernel * kPatchRow2;
      patch_slopes[place][count] = slope;
      count += slope != 0;
    }
    for (std::size_t place = 0; place < 4; ++place) {
      if (counts[place] == 0) continue;
      float* const corner = map_slopes + winner2(window, place);
      spread_half_patch2<0>(patches[place], patch_slopes[place], counts[place], corner);
      spread_half_patch2<kHalfPatch2>(patches[place], patch_slopes[place], counts[place], corner);
    }
  }
}

template <std::size_t kChannels>
void first_weights(const float* input, const ImageTrace& trace, const float* map_slopes,
                   ConvolutionGradient& gradient) {
  constexpr std::size_t kRow = kSide * kChannels;
  constexpr std::size_t kRowVectors = patch_row(kChannels) / kLanes;
  constexpr std::size_t kVectors = kKernel * kRowVectors;
  constexpr std::size_t kTogether = kRowVectors == 1 ? 2 : 1;  // channels: ten sums in either case
  constexpr std::size_t kWinners[4] = {0, kChannels, kRow, kRow + kChannels};
  for (std::size_t out = 0; out < kOut1; out += kTogether) {
    Vector sums[kTogether][kVectors] = {};
    float biases[kTogether] = {};
    for (std::size_t window = 0; window < kWindows1; ++window) {
      const float* const corner = input + window / kPooled1 * 2 * kRow + window % kPooled1 * 2 * kChannels;
      for (std::size_t t = 0; t < kTogether; ++t) {
        const float slope = map_slopes[window * kOut1 + out + t];
        biases[t] += slope;
        const float* const winner = corner + kWinners[trace.place1[window * kLanes + out + t]];
        for (std::size_t i = 0; i < kVectors; ++i) {
          sums[t][i] += slope * at(winner + i / kRowVectors * kRow + i % kRowVectors * kLanes);
        }
      }
    }
    for (std::size_t t = 0; t < kTogether; ++t) {
      gradient.bias1[out + t] += biases[t];
      float* const patch = gradient.patch1 + (out + t) * kVectors * kLanes;
      for (std::size_t i = 0; i < kVectors; ++i) at(patch + i * kLanes) += sums[t][i];
    }
  }
}

template <std::size_t kChannels>
void backward(const PackedWeights& weights, const float* input, const ImageTrace& trace, const float* slopes,
              ConvolutionGradient& gradient) {
  second_weights(trace, slopes, gradient);
  float map_slopes[kMap1Floats] = {};
  first_map(weights, trace, slopes, map_slopes);
  // The ReLU; here, because in the loops below it is a branch that nothing predicts.
  for (std::size_t i = 0; i < kWindows1 * kOut1; ++i) map_slopes[i] = trace.map1[i] == 0 ? 0 : map_slopes[i];
  first_weights<kChannels>(input, trace, map_slopes, gradient);
}

constexpr std::size_t kTileRows = 6;
constexpr std::size_t kTileColumns = 2 * kLanes;

template <std::size_t kRows>
void multiply_tile(std::size_t columns, std::size_t depth, const float* a, std::size_t a_row, std::size_t a_column,
                   const float* b, std::size_t b_stride, float* c, std::size_t c_stride) {
  Vector sums[kRows][2] = {};
  for (std::size_t k = 0; k < depth; ++k, a += a_column, b += b_stride) {
    const Vector low = at(b);
    const Vector high = at(b + kLanes);
    for (std::size_t r = 0; r < kRows; ++r) {
      sums[r][0] += low * a[r * a_row];
      sums[r][1] += high * a[r * a_row];
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    float* const out = c + r * c_stride;
    if (columns >= kTileColumns) {
      at(out) = sums[r][0];
      at(out + kLanes) = sums[r][1];
    } else {
      for (std::size_t j = 0; j < columns; ++j) out[j] = sums[r][j / kLanes][j % kLanes];
    }
  }
}

void multiply(std::size_t rows, std::size_t columns, std::size_t depth, const float* a, std::size_t a_row,
              std::size_t a_column, const float* b, std::size_t b_stride, float* c, std::size_t c_stride) {
  // A strip of b, 16 columns wide, stays in the first-level cache for all rows.
  for (std::size_t j = 0; j < columns; j += kTileColumns) {
    const std::size_t width = columns - j;
    std::size_t i = 0;
    for (; i + kTileRows <= rows; i += kTileRows) {
      multiply_tile<kTileRows>(width, depth, a + i * a_row, a_row, a_column, b + j, b_stride, c + i * c_stride + j,
                               c_stride);
    }
    for (; i + 2 <= rows; i += 2) {
      multiply_tile<2>(width, depth, a + i * a_row, a_row, a_column, b + j, b_stride, c + i * c_stride + j, c_stride);
    }
    for (; i < rows; ++i) {
      multiply_tile<1>(width, depth, a + i * a_row, a_row, a_column, b + j, b_stride, c + i * c_stride + j, c_stride);
    }
  }
}

}  // namespace

Kernels kernels(std::size_t channels) {
  return channels == 1 ? Kernels{forward<1>, backward<1>, multiply} : Kernels{forward<3>, backward<3>, multiply};
}

}  // namespace shoal::lenet5
