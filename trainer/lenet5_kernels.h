// LeNet-5's arithmetic by hand, for one core: what LenetLearner is made of. No LibTorch.
//
// The convolutions go image by image, so that all they touch stays in the first-level cache, with channels innermost
// and pooling fused in. Of the four places of a pooling window only the largest gets a gradient, so the way back does a
// quarter of the multiplications that a general convolution does; that is where most of the gain comes from.
//
// For x86-64 with AVX2 and FMA only; where a processor has none, LibTorch computes LeNet-5.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shoal::lenet5 {

inline constexpr std::size_t kSide = 32;     // of the input, with its padding
inline constexpr std::size_t kKernel = 5;    // side of both convolutions
inline constexpr std::size_t kOut1 = 6;      // channels
inline constexpr std::size_t kOut2 = 16;     // channels
inline constexpr std::size_t kPooled1 = 14;  // side after the first pooling
inline constexpr std::size_t kPooled2 = 5;   // side after the second pooling
inline constexpr std::size_t kWindows1 = kPooled1 * kPooled1;
inline constexpr std::size_t kWindows2 = kPooled2 * kPooled2;
inline constexpr std::size_t kFeatures = kOut2 * kWindows2;
inline constexpr std::size_t kLanes = 8;

// A row of a 5 x 5 patch, kernel column by kernel column with the channels innermost, in whole vectors.
constexpr std::size_t patch_row(std::size_t channels) { return (kKernel * channels + kLanes - 1) / kLanes * kLanes; }
inline constexpr std::size_t kPatchRow2 = patch_row(kOut1);

// Vectors may be read or written past the end of an array, by less than this.
inline constexpr std::size_t kSlack = 16;
inline constexpr std::size_t kMap1Floats = kWindows1 * kOut1 + kSlack;

// The weights in the orders that the loops like; once per step.
struct PackedWeights {
  alignas(64) float conv1[3 * kKernel * kKernel * kLanes];  // [row, column, channel][out channel]
  alignas(64) float bias1[kLanes];
  alignas(64) float conv2[kOut1 * kKernel * kKernel * kOut2];  // [row, column, channel][out channel]
  alignas(64) float bias2[kOut2];
  alignas(64) float patch2[kOut2 * kKernel * kPatchRow2];  // [out channel][row][column, channel, padding]
};

// Sums over the batch; the patches as above.
struct ConvolutionGradient {
  alignas(64) float patch1[kOut1 * kKernel * 2 * kLanes];
  alignas(64) float bias1[kLanes];
  alignas(64) float patch2[kOut2 * kKernel * kPatchRow2];
  alignas(64) float bias2[kOut2];
};

// What the way back needs of the way forth; per image.
struct ImageTrace {
  alignas(64) float map1[kMap1Floats];                  // [row][column][channel], after ReLU and pooling
  alignas(64) std::uint8_t place1[kWindows1 * kLanes];  // which of the four of each window was the largest
  alignas(64) std::uint8_t place2[kWindows2 * kOut2];
};

struct Kernels {
  // Both convolutions. The input has its padding and interleaved channels, and kSlack floats after it; features are
  // [channel][row][column], after ReLU and pooling.
  void (*forward)(const PackedWeights& weights, const float* input, ImageTrace& trace, float* features);
  // Adds one image's part. `slopes` are of the features, zero where the ReLU was.
  void (*backward)(const PackedWeights& weights, const float* input, const ImageTrace& trace, const float* slopes,
                   ConvolutionGradient& gradient);
  // c[i][j] = sum_k a[i * a_row + k * a_column] b[k][j]; b may be read up to the next multiple of 16 columns.
  void (*multiply)(std::size_t rows, std::size_t columns, std::size_t depth, const float* a, std::size_t a_row,
                   std::size_t a_column, const float* b, std::size_t b_stride, float* c, std::size_t c_stride);
};

Kernels kernels(std::size_t channels);  // 1 or 3

}  // namespace shoal::lenet5
