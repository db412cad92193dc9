#include "trainer/device_learner.h"

#include <ATen/ATen.h>

#include <cstring>

#include "store/error.h"

namespace shoal {
namespace {

at::Tensor tensor_at(std::byte* memory, at::IntArrayRef shape, c10::ScalarType type, c10::Device device) {
  // With the device named, LibTorch does not ask the driver whose memory it is.
  const auto options = at::TensorOptions(type).device(device);
  return at::for_blob(memory, shape).options(options).target_device(device).make_tensor();
}

float* floats(const DeviceBlock& block) { return reinterpret_cast<float*>(block.get()); }

}  // namespace

DeviceLearner::DeviceLearner(const TorchModel& model, c10::Device lane, std::unique_ptr<DeviceMemory> memory)
    : image_(model.image()),
      memory_(std::move(memory)),
      lane_(lane, *memory_),
      learner_(model),
      parameter_bytes_(model.flat_size() * sizeof(float)),
      buffer_bytes_(model.buffers_bytes()),
      parameters_(memory_->allocate(parameter_bytes_)),
      buffers_(memory_->allocate(buffer_bytes_)),
      gradient_(mirror(parameter_bytes_)),
      figures_(mirror(sizeof(Figures))) {}

DeviceLearner::Mirror DeviceLearner::mirror(std::size_t bytes) {
  return {memory_->allocate(bytes), memory_->allocate_pinned(bytes), bytes};
}

std::array<CopyIn, 4> DeviceLearner::stage(const Batch& batch, const float* parameters, const std::byte* buffers) {
  const std::size_t image_bytes = batch.size * image_.pixels() * sizeof(float);
  const std::size_t label_bytes = batch.size * sizeof(std::int64_t);
  SHOAL_CHECK(batch.images.size() * sizeof(float) >= image_bytes && batch.labels.size() >= batch.size);
  if (label_bytes > labels_.bytes) {
    images_ = mirror(image_bytes);
    labels_ = mirror(label_bytes);
  }
  std::memcpy(images_.pinned.get(), batch.images.data(), image_bytes);
  std::memcpy(labels_.pinned.get(), batch.labels.data(), label_bytes);
  return {{{parameters_.get(), reinterpret_cast<const std::byte*>(parameters), parameter_bytes_},
           {buffers_.get(), buffers, buffer_bytes_},
           {images_.device.get(), images_.pinned.get(), image_bytes},
           {labels_.device.get(), labels_.pinned.get(), label_bytes}}};
}

at::Tensor DeviceLearner::images(std::size_t size) const {
  return tensor_at(images_.device.get(),
                   {static_cast<std::int64_t>(size), image_.channels, image_.height, image_.width}, c10::kFloat,
                   learner_.device());
}

at::Tensor DeviceLearner::labels(std::size_t size) const {
  return tensor_at(labels_.device.get(), {static_cast<std::int64_t>(size)}, c10::kLong, learner_.device());
}

void DeviceLearner::set_figure(std::size_t offset, c10::ScalarType type, const at::Tensor& value) const {
  tensor_at(figures_.device.get() + offset, {}, type, learner_.device()).copy_(value, /*non_blocking=*/true);
}

double DeviceLearner::gradient(NodeId node, std::uint64_t step, const Batch& batch, const float* parameters,
                               std::byte* buffers, float* gradient) {
  const std::array<CopyIn, 4> in = stage(batch, parameters, buffers);
  const std::array<CopyOut, 3> out{{gradient_.out(), {buffers, buffers_.get(), buffer_bytes_}, figures_.out()}};
  const auto compute = [&] {
    const at::Tensor loss = learner_.device_gradient(node, step, images(batch.size), labels(batch.size),
                                                     floats(parameters_), buffers_.get(), floats(gradient_.device));
    set_figure(offsetof(Figures, loss), c10::kFloat, loss);
  };
  lane_.run(in, compute, out);
  std::memcpy(gradient, gradient_.pinned.get(), parameter_bytes_);
  return figures().loss;
}

Score DeviceLearner::score(const Batch& batch, const float* parameters, const std::byte* buffers) {
  if (batch.size == 0) return {};
  const std::array<CopyIn, 4> in = stage(batch, parameters, buffers);
  const std::array<CopyOut, 1> out{{figures_.out()}};
  const auto compute = [&] {
    const TorchLearner::DeviceScore score =
        learner_.device_score(images(batch.size), labels(batch.size), floats(parameters_), buffers_.get());
    set_figure(offsetof(Figures, correct), c10::kLong, score.correct);
    set_figure(offsetof(Figures, loss), c10::kFloat, score.loss);
  };
  lane_.run(in, compute, out);
  return {batch.size, static_cast<std::uint64_t>(figures().correct), figures().loss};
}

}  // namespace shoal
