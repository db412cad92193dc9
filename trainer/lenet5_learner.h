// LeNet-5's gradient and score on one core, without LibTorch. For grey images of
// 28 x 28 pixels and coloured ones of 32 x 32; everything is allocated when the first batch of its size comes.
#pragma once

#include <array>
#include <vector>

#include "store/state_layout.h"
#include "trainer/layers.h"
#include "trainer/lenet5_kernels.h"
#include "trainer/model.h"

namespace shoal {

Layers lenet5_layers(const DataSetShape& data);

class LeNet5Learner : public Learner {
 public:
  // Of these images, and on this processor.
  static bool can_learn(const ImageShape& image);

  // `parameters` as lenet5_layers() lists them.
  LeNet5Learner(const std::vector<TensorSpec>& parameters, const ImageShape& image);

  double gradient(NodeId node, std::uint64_t step, const Batch& batch, const float* parameters, std::byte* buffers,
                  float* gradient) override;
  Score score(const Batch& batch, const float* parameters, const std::byte* buffers) override;

 private:
  static constexpr std::size_t kDenseLayers = 3;
  // Activations lie twice in memory: by unit (a row for each, the images along it) for the way forth, and by image for
  // the gradients of the weights.
  struct DenseLayer {
    std::size_t in = 0;
    std::size_t out = 0;
    std::size_t weight = 0;  // offsets in the flat run
    std::size_t bias = 0;
    std::size_t in_stride = 0;    // of by_image
    std::vector<float> by_image;  // inputs
    std::vector<float> by_unit;   // inputs
    std::vector<float> slopes;    // of the outputs, by unit
  };

  void make_room(std::size_t images);
  void pack_weights(const float* parameters);
  void forward(const Batch& batch, const float* parameters);  // to logits_
  double softmax_slopes(const Batch& batch);                  // the loss; the slopes go to the last layer
  void dense_backward(const float* parameters, float* gradient);
  void convolution_backward(const Batch& batch, float* gradient);

  ImageShape image_;
  std::size_t padding_;
  std::size_t classes_;
  lenet5::Kernels kernels_;
  std::array<std::size_t, 4> convolutions_{};  // offsets of conv1's and conv2's weight and bias
  struct Gap {
    std::size_t first;
    std::size_t size;
  };
  std::vector<Gap> gaps_;

  std::size_t images_ = 0;   // of the current batch
  std::size_t columns_ = 0;  // the same in whole tiles
  std::size_t stride_ = 0;   // of a row of images
  std::array<DenseLayer, kDenseLayers> layers_;
  std::vector<float> logits_;          // by unit
  std::vector<float> feature_slopes_;  // by image
  std::vector<float> input_;
  std::vector<lenet5::ImageTrace> traces_;
  lenet5::PackedWeights weights_{};
  lenet5::ConvolutionGradient sums_{};
};

}  // namespace shoal
