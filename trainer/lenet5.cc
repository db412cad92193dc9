// LeNet-5 as it is trained today: ReLU, max pooling, 61,706 parameters for 28 x 28 grey images and ten classes.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "store/error.h"
#include "trainer/lenet5_learner.h"
#include "trainer/model_kinds.h"
#include "trainer/torch_learner.h"

namespace shoal {
namespace {

class LeNet5 : public Network {
 public:
  LeNet5(const BoundTensors& tensors, std::int64_t padding) : parameters_(tensors.parameters), padding_(padding) {}

  at::Tensor logits(const at::Tensor& images, Phase) override {
    const auto& p = parameters_;
    at::Tensor x = at::conv2d(images, p[0], p[1], 1, padding_);
    x = at::max_pool2d(x.relu_(), 2);
    x = at::max_pool2d(at::conv2d(x, p[2], p[3]).relu_(), 2);
    x = at::linear(x.flatten(1), p[4], p[5]).relu_();
    x = at::linear(x, p[6], p[7]).relu_();
    return at::linear(x, p[8], p[9]);
  }

 private:
  std::vector<at::Tensor> parameters_;
  std::int64_t padding_;
};

class LeNet5Model : public LayeredModel {
 public:
  explicit LeNet5Model(const ModelOptions& options)
      : LayeredModel(lenet5_layers(options.data), options), padding_(options.data.image.height == 28 ? 2 : 0) {}

  std::unique_ptr<Network> make_network(const BoundTensors& tensors) const override {
    return std::make_unique<LeNet5>(tensors, padding_);
  }

  // By hand where that is possible: less than a quarter of autograd's time.
  std::unique_ptr<Learner> make_learner() const override {
    if (!device().is_cpu() || !LeNet5Learner::can_learn(image())) return LayeredModel::make_learner();
    return std::make_unique<LeNet5Learner>(parameters(), image());
  }

 private:
  std::int64_t padding_;
};

}  // namespace

std::unique_ptr<Model> make_lenet5(const ModelOptions& options) {
  const ImageShape& image = options.data.image;
  if (image.height != image.width || (image.height != 28 && image.height != 32)) {
    throw Error(fmt::format("--model lenet5 takes images of 28 x 28 or 32 x 32 pixels; this data has {} x {}",
                            image.height, image.width),
                ExitCode::kUsage);
  }
  return std::make_unique<LeNet5Model>(options);
}

}  // namespace shoal
