// ResNet-18 with the stem for small images (one 3 x 3 convolution, no pooling), as is usual for CIFAR; 11,173,962
// parameters for ten classes. The names are those of the usual PyTorch code.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <array>

#include "store/error.h"
#include "trainer/model_kinds.h"
#include "trainer/torch_learner.h"

namespace shoal {
namespace {

struct Block {
  std::string name;
  std::int64_t in;
  std::int64_t out;
  std::int64_t stride;

  bool has_shortcut() const { return stride != 1 || in != out; }
};

std::vector<Block> blocks() {
  constexpr std::array<std::int64_t, 4> kWidths = {64, 128, 256, 512};
  std::vector<Block> result;
  std::int64_t in = kWidths[0];
  for (std::size_t stage = 0; stage < kWidths.size(); ++stage) {
    for (int i = 0; i < 2; ++i) {
      const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      result.push_back({fmt::format("layer{}.{}", stage + 1, i), in, kWidths[stage], stride});
      in = kWidths[stage];
    }
  }
  return result;
}

Layers resnet18_layers(const DataSetShape& data) {
  using Bias = Layers::Bias;
  Layers layers;
  layers.add_convolution("conv1", data.image.channels, 64, 3, Bias::kNone);
  layers.add_batch_norm("bn1", 64);
  for (const Block& block : blocks()) {
    layers.add_convolution(block.name + ".conv1", block.in, block.out, 3, Bias::kNone);
    layers.add_batch_norm(block.name + ".bn1", block.out);
    layers.add_convolution(block.name + ".conv2", block.out, block.out, 3, Bias::kNone);
    layers.add_batch_norm(block.name + ".bn2", block.out);
    if (block.has_shortcut()) {
      layers.add_convolution(block.name + ".shortcut.0", block.in, block.out, 1, Bias::kNone);
      layers.add_batch_norm(block.name + ".shortcut.1", block.out);
    }
  }
  layers.add_linear("linear", 512, data.classes);
  return layers;
}

class ResNet18 : public Network {
 public:
  explicit ResNet18(const BoundTensors& tensors) : tensors_(tensors), blocks_(blocks()) {}

  at::Tensor logits(const at::Tensor& images, Phase phase) override {
    phase_ = phase;
    next_parameter_ = 0;
    next_buffer_ = 0;
    at::Tensor x = normalized(convolved(images, 1, 1)).relu_();
    for (const Block& block : blocks_) {
      at::Tensor y = normalized(convolved(x, block.stride, 1)).relu_();
      y = normalized(convolved(y, 1, 1));
      const at::Tensor shortcut = block.has_shortcut() ? normalized(convolved(x, block.stride, 0)) : x;
      x = y.add_(shortcut).relu_();
    }
    const at::Tensor& weight = parameter();
    return at::linear(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1), weight, parameter());
  }

 private:
  // The layers are walked in the order in which resnet18_layers() lists them.
  const at::Tensor& parameter() { return tensors_.parameters[next_parameter_++]; }
  at::Tensor& buffer() { return tensors_.buffers[next_buffer_++]; }

  at::Tensor convolved(const at::Tensor& x, std::int64_t stride, std::int64_t padding) {
    return at::conv2d(x, parameter(), {}, stride, padding);
  }

  at::Tensor normalized(const at::Tensor& x) {
    const bool training = phase_ == Phase::kTraining;
    const at::Tensor& weight = parameter();
    const at::Tensor& bias = parameter();
    const at::Tensor& mean = buffer();
    const at::Tensor& variance = buffer();
    at::Tensor& batches = buffer();
    if (training) batches.add_(1);
    return at::batch_norm(x, weight, bias, mean, variance, training, 0.1, 1e-5, /*cudnn_enabled=*/true);
  }

  BoundTensors tensors_;
  std::vector<Block> blocks_;
  Phase phase_ = Phase::kTraining;
  std::size_t next_parameter_ = 0;
  std::size_t next_buffer_ = 0;
};

class ResNet18Model : public LayeredModel {
 public:
  explicit ResNet18Model(const ModelOptions& options) : LayeredModel(resnet18_layers(options.data), options) {}

  std::unique_ptr<Network> make_network(const BoundTensors& tensors) const override {
    return std::make_unique<ResNet18>(tensors);
  }
};

}  // namespace

std::unique_ptr<Model> make_resnet18(const ModelOptions& options) {
  const ImageShape& image = options.data.image;
  // Three halvings, and BatchNorm wants more than one value per channel even for a batch of one.
  if (image.height < 16 || image.width < 16) {
    throw Error(fmt::format("--model resnet18 takes images of at least 16 x 16 pixels; this data has {} x {}",
                            image.height, image.width),
                ExitCode::kUsage);
  }
  return std::make_unique<ResNet18Model>(options);
}

}  // namespace shoal
