#include "trainer/lenet5_learner.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "store/error.h"

namespace shoal {
namespace {

using namespace lenet5;  // NOLINT: the kernels' constants

constexpr std::size_t kTile = 16;  // images: what Kernels::multiply takes at once

void transpose(const float* from, std::size_t rows, std::size_t columns, std::size_t from_stride, float* to,
               std::size_t to_stride) {
  constexpr std::size_t kBlock = 16;  // a cache line each way
  for (std::size_t i0 = 0; i0 < rows; i0 += kBlock) {
    for (std::size_t j0 = 0; j0 < columns; j0 += kBlock) {
      const std::size_t i1 = std::min(i0 + kBlock, rows);
      const std::size_t j1 = std::min(j0 + kBlock, columns);
      for (std::size_t j = j0; j < j1; ++j) {
        for (std::size_t i = i0; i < i1; ++i) to[j * to_stride + i] = from[i * from_stride + j];
      }
    }
  }
}

// [channel][row][column] to [row][column][channel]; the padding of `input` is zeros already.
void spread_image(const float* image, std::size_t channels, std::size_t padding, float* input) {
  const std::size_t side = kSide - 2 * padding;
  for (std::size_t channel = 0; channel < channels; ++channel) {
    for (std::size_t y = 0; y < side; ++y) {
      float* const row = input + ((y + padding) * kSide + padding) * channels + channel;
      for (std::size_t x = 0; x < side; ++x) row[x * channels] = *image++;
    }
  }
}

// A NaN stays one.
void relu(float* values, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) values[i] = values[i] <= 0 ? 0 : values[i];
}

void mask(float* slopes, const float* activations, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) slopes[i] = activations[i] == 0 ? 0 : slopes[i];
}

}  // namespace

Layers lenet5_layers(const DataSetShape& data) {
  Layers layers;
  layers.add_convolution("conv1", data.image.channels, kOut1, kKernel, Layers::Bias::kYes);
  layers.add_convolution("conv2", kOut1, kOut2, kKernel, Layers::Bias::kYes);
  layers.add_linear("fc1", kFeatures, 120);
  layers.add_linear("fc2", 120, 84);
  layers.add_linear("fc3", 84, data.classes);
  return layers;
}

bool LeNet5Learner::can_learn(const ImageShape& image) {
#ifdef SHOAL_HAS_AVX2_KERNELS
  return (image == ImageShape{1, 28, 28} || image == ImageShape{3, 32, 32}) && __builtin_cpu_supports("avx2") &&
         __builtin_cpu_supports("fma");
#else
  static_cast<void>(image);
  return false;
#endif
}

LeNet5Learner::LeNet5Learner(const std::vector<TensorSpec>& parameters, const ImageShape& image)
    : image_(image), padding_((kSide - image.height) / 2), input_(kSide * kSide * image.channels + kSlack) {
  SHOAL_CHECK(can_learn(image) && parameters.size() == 10);
#ifdef SHOAL_HAS_AVX2_KERNELS
  kernels_ = lenet5::kernels(image.channels);
#endif
  const StateLayout layout(parameters);
  const auto offset = [&](std::size_t i) { return layout.tensors()[i].offset / sizeof(float); };
  for (std::size_t i = 0; i < 4; ++i) convolutions_[i] = offset(i);
  for (std::size_t l = 0; l < kDenseLayers; ++l) {
    const std::size_t i = 4 + 2 * l;
    layers_[l].out = static_cast<std::size_t>(parameters[i].shape[0]);
    layers_[l].in = static_cast<std::size_t>(parameters[i].shape[1]);
    layers_[l].weight = offset(i);
    layers_[l].bias = offset(i + 1);
    layers_[l].in_stride = round_up(layers_[l].in, kTile);
  }
  SHOAL_CHECK(layers_[0].in == kFeatures);
  classes_ = layers_[kDenseLayers - 1].out;
  for (std::size_t i = 0; i + 1 < parameters.size(); ++i) {
    const std::size_t end = offset(i) + layout.tensors()[i].bytes / sizeof(float);
    if (end != offset(i + 1)) gaps_.push_back({end, offset(i + 1) - end});
  }
}

void LeNet5Learner::make_room(std::size_t images) {
  images_ = images;
  columns_ = round_up(images, kTile);
  // An odd number of cache lines: rows at a power of two would share a few sets of the cache.
  const std::size_t stride = columns_ / kTile % 2 == 0 ? columns_ + kTile : columns_;
  if (stride <= stride_) return;
  stride_ = stride;
  for (DenseLayer& layer : layers_) {
    layer.by_image.assign(stride_ * layer.in_stride, 0.0F);
    layer.by_unit.assign(layer.in * stride_, 0.0F);
    layer.slopes.assign(layer.out * stride_, 0.0F);
  }
  logits_.assign(classes_ * stride_, 0.0F);
  feature_slopes_.assign(stride_ * kFeatures, 0.0F);
  traces_.resize(stride_);
}

void LeNet5Learner::pack_weights(const float* parameters) {
  const std::size_t channels = image_.channels;
  const float* const conv1 = parameters + convolutions_[0];
  const float* const conv2 = parameters + convolutions_[2];
  for (std::size_t out = 0; out < kOut1; ++out) {
    weights_.bias1[out] = parameters[convolutions_[1] + out];
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t k = 0; k < kKernel * kKernel; ++k) {
        weights_.conv1[(k * channels + c) * kLanes + out] = conv1[(out * channels + c) * kKernel * kKernel + k];
      }
    }
  }
  for (std::size_t out = 0; out < kOut2; ++out) {
    weights_.bias2[out] = parameters[convolutions_[3] + out];
    for (std::size_t c = 0; c < kOut1; ++c) {
      for (std::size_t k = 0; k < kKernel * kKernel; ++k) {
        const float weight = conv2[(out * kOut1 + c) * kKernel * kKernel + k];
        weights_.conv2[(k * kOut1 + c) * kOut2 + out] = weight;
        weights_.patch2[(out * kKernel + k / kKernel) * kPatchRow2 + k % kKernel * kOut1 + c] = weight;
      }
    }
  }
}

void LeNet5Learner::forward(const Batch& batch, const float* parameters) {
  SHOAL_CHECK(batch.images.size() >= batch.size * image_.pixels() && batch.labels.size() >= batch.size);
  make_room(batch.size);
  pack_weights(parameters);
  for (std::size_t n = 0; n < images_; ++n) {
    spread_image(batch.images.data() + n * image_.pixels(), image_.channels, padding_, input_.data());
    kernels_.forward(weights_, input_.data(), traces_[n], layers_[0].by_image.data() + n * kFeatures);
  }
  transpose(layers_[0].by_image.data(), images_, kFeatures, kFeatures, layers_[0].by_unit.data(), stride_);
  for (std::size_t l = 0; l < kDenseLayers; ++l) {
    const DenseLayer& layer = layers_[l];
    const bool last = l + 1 == kDenseLayers;
    float* const out = last ? logits_.data() : layers_[l + 1].by_unit.data();
    kernels_.multiply(layer.out, columns_, layer.in, parameters + layer.weight, layer.in, 1, layer.by_unit.data(),
                      stride_, out, stride_);
    for (std::size_t unit = 0; unit < layer.out; ++unit) {
      const float bias = parameters[layer.bias + unit];
      float* const row = out + unit * stride_;
      for (std::size_t n = 0; n < columns_; ++n) row[n] += bias;
      if (!last) relu(row, columns_);
    }
  }
}

double LeNet5Learner::softmax_slopes(const Batch& batch) {
  double loss = 0;
  std::vector<float>& slopes = layers_[kDenseLayers - 1].slopes;
  const float share = 1 / static_cast<float>(images_);
  for (std::size_t n = 0; n < images_; ++n) {
    const auto label = static_cast<std::size_t>(batch.labels[n]);
    SHOAL_CHECK(label < classes_);
    float largest = logits_[n];
    for (std::size_t c = 1; c < classes_; ++c) largest = std::max(largest, logits_[c * stride_ + n]);
    float sum = 0;
    for (std::size_t c = 0; c < classes_; ++c) {
      const float e = std::exp(logits_[c * stride_ + n] - largest);
      slopes[c * stride_ + n] = e;
      sum += e;
    }
    loss += static_cast<double>(std::log(sum)) + static_cast<double>(largest - logits_[label * stride_ + n]);
    for (std::size_t c = 0; c < classes_; ++c) slopes[c * stride_ + n] *= share / sum;
    slopes[label * stride_ + n] -= share;
  }
  return loss / static_cast<double>(images_);
}

void LeNet5Learner::dense_backward(const float* parameters, float* gradient) {
  for (std::size_t l = kDenseLayers; l-- > 0;) {
    DenseLayer& layer = layers_[l];
    if (l > 0) {
      transpose(layer.by_unit.data(), layer.in, images_, stride_, layer.by_image.data(), layer.in_stride);
    }
    kernels_.multiply(layer.out, layer.in, images_, layer.slopes.data(), stride_, 1, layer.by_image.data(),
                      layer.in_stride, gradient + layer.weight, layer.in);
    for (std::size_t unit = 0; unit < layer.out; ++unit) {
      float sum = 0;
      for (std::size_t n = 0; n < images_; ++n) sum += layer.slopes[unit * stride_ + n];
      gradient[layer.bias + unit] = sum;
    }
    const float* const weight = parameters + layer.weight;
    if (l > 0) {
      std::vector<float>& slopes = layers_[l - 1].slopes;
      kernels_.multiply(layer.in, columns_, layer.out, weight, 1, layer.in, layer.slopes.data(), stride_, slopes.data(),
                        stride_);
      for (std::size_t unit = 0; unit < layer.in; ++unit) {
        mask(slopes.data() + unit * stride_, layer.by_unit.data() + unit * stride_, columns_);
      }
    } else {
      kernels_.multiply(images_, layer.in, layer.out, layer.slopes.data(), 1, stride_, weight, layer.in,
                        feature_slopes_.data(), kFeatures);
      mask(feature_slopes_.data(), layer.by_image.data(), images_ * kFeatures);
    }
  }
}

void LeNet5Learner::convolution_backward(const Batch& batch, float* gradient) {
  const std::size_t channels = image_.channels;
  sums_ = {};
  for (std::size_t n = 0; n < images_; ++n) {
    spread_image(batch.images.data() + n * image_.pixels(), channels, padding_, input_.data());
    kernels_.backward(weights_, input_.data(), traces_[n], feature_slopes_.data() + n * kFeatures, sums_);
  }
  const std::size_t row1 = patch_row(channels);
  for (std::size_t out = 0; out < kOut1; ++out) {
    gradient[convolutions_[1] + out] = sums_.bias1[out];
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t k = 0; k < kKernel * kKernel; ++k) {
        gradient[convolutions_[0] + (out * channels + c) * kKernel * kKernel + k] =
            sums_.patch1[(out * kKernel + k / kKernel) * row1 + k % kKernel * channels + c];
      }
    }
  }
  for (std::size_t out = 0; out < kOut2; ++out) {
    gradient[convolutions_[3] + out] = sums_.bias2[out];
    for (std::size_t c = 0; c < kOut1; ++c) {
      for (std::size_t k = 0; k < kKernel * kKernel; ++k) {
        gradient[convolutions_[2] + (out * kOut1 + c) * kKernel * kKernel + k] =
            sums_.patch2[(out * kKernel + k / kKernel) * kPatchRow2 + k % kKernel * kOut1 + c];
      }
    }
  }
}

double LeNet5Learner::gradient(NodeId, std::uint64_t, const Batch& batch, const float* parameters, std::byte*,
                               float* gradient) {
  SHOAL_CHECK(batch.size > 0);
  forward(batch, parameters);
  const double loss = softmax_slopes(batch);
  dense_backward(parameters, gradient);
  convolution_backward(batch, gradient);
  for (const Gap& gap : gaps_) std::fill_n(gradient + gap.first, gap.size, 0.0F);
  return loss;
}

Score LeNet5Learner::score(const Batch& batch, const float* parameters, const std::byte*) {
  if (batch.size == 0) return {};
  forward(batch, parameters);
  Score score;
  score.samples = batch.size;
  for (std::size_t n = 0; n < images_; ++n) {
    std::size_t best = 0;
    for (std::size_t c = 1; c < classes_; ++c) {
      if (logits_[c * stride_ + n] > logits_[best * stride_ + n]) best = c;
    }
    if (best == static_cast<std::size_t>(batch.labels[n])) ++score.correct;
  }
  score.loss = softmax_slopes(batch);
  return score;
}

}  // namespace shoal
