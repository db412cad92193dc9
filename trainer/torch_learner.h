// What the networks that compute with LibTorch share: tensors bound to memory of somebody else, and the gradient and
// score by autograd. Only for the files of this library that include torch headers.
//
// All the parameters are views of one Storage, and so are the buffers and the gradient. To bind them to a frame is to
// set three pointers, however many tensors there are (from_blob and set_data take 1.6 us for each).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>
#include <vector>

#include "trainer/layers.h"
#include "trainer/model.h"

namespace shoal {

enum class Phase { kTraining, kScoring };

// In the model's order; their memory changes from call to call.
struct BoundTensors {
  std::vector<at::Tensor> parameters;  // leaves that require gradients
  std::vector<at::Tensor> buffers;
};

// One per learner.
class Network {
 public:
  virtual ~Network() = default;
  // images: N x channels x height x width on the device; returns N x classes.
  virtual at::Tensor logits(const at::Tensor& images, Phase phase) = 0;
};

class TorchModel;

class TorchLearner : public Learner {
 public:
  explicit TorchLearner(const TorchModel& model);

  // Everything here lies in the device's memory, and nothing waits for the device: whoever copies between host and
  // device (a batch and a state in, a gradient and a loss out) runs it on a stream of his choice.
  at::Tensor device_gradient(NodeId node, std::uint64_t step, const at::Tensor& images, const at::Tensor& labels,
                             const float* parameters, std::byte* buffers, float* gradient);  // the loss, a scalar
  struct DeviceScore {
    at::Tensor correct;  // a count
    at::Tensor loss;     // the mean
  };
  DeviceScore device_score(const at::Tensor& images, const at::Tensor& labels, const float* parameters,
                           const std::byte* buffers);
  c10::Device device() const { return device_; }

  // The batch is in host memory as always and is copied where the device is not the host; the pointers are the
  // device's.
  double gradient(NodeId node, std::uint64_t step, const Batch& batch, const float* parameters, std::byte* buffers,
                  float* gradient) override;
  Score score(const Batch& batch, const float* parameters, const std::byte* buffers) override;

 private:
  void bind(const float* parameters, const std::byte* buffers);
  at::Tensor images_of(const Batch& batch) const;
  at::Tensor labels_of(const Batch& batch) const;

  c10::Device device_;
  ImageShape image_;
  std::uint64_t seed_;
  bool random_;
  at::Tensor score_buffers_;
  c10::Storage parameter_storage_;
  c10::Storage buffer_storage_;
  c10::Storage gradient_storage_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> gradients_;
  std::vector<at::Tensor> gradient_gaps_;
  std::unique_ptr<Network> network_;
};

class TorchModel : public Model {
 public:
  c10::Device device() const { return device_; }
  const ImageShape& image() const { return image_; }
  std::uint64_t seed() const { return seed_; }
  virtual std::unique_ptr<Network> make_network(const BoundTensors& tensors) const = 0;
  std::unique_ptr<Learner> make_learner() const override;

 protected:
  TorchModel(std::vector<TensorSpec> parameters, std::vector<TensorSpec> buffers, const ModelOptions& options);

 private:
  c10::Device device_;
  ImageShape image_;
  std::uint64_t seed_;
};

// A network of `Layers`: its initial state does not depend on torch's generator.
class LayeredModel : public TorchModel {
 public:
  void initialize(std::uint64_t seed, NodeId node, float* parameters, std::byte* buffers) const override;

 protected:
  LayeredModel(Layers layers, const ModelOptions& options);

 private:
  Layers layers_;
};

}  // namespace shoal
