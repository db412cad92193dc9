// A TorchLearner on a device that has its own memory: the state goes up, the gradient comes back. Mixing and the
// optimizer stay on the host, on the frames: a local step moves two model sizes instead of 2 * (1 + optimizer slots),
// and they round alike whatever computed the gradient. Only for the files of this library that include torch headers.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <memory>

#include "pipeline/device_lane.h"
#include "pipeline/device_memory.h"
#include "trainer/torch_learner.h"

namespace shoal {

class DeviceLearner final : public Learner {
 public:
  // The lane is of the model's device, except in tests.
  DeviceLearner(const TorchModel& model, c10::Device lane, std::unique_ptr<DeviceMemory> memory);

  // All pointers are the host's. Parameters and buffers are copied straight from and to where they lie.
  double gradient(NodeId node, std::uint64_t step, const Batch& batch, const float* parameters, std::byte* buffers,
                  float* gradient) override;
  Score score(const Batch& batch, const float* parameters, const std::byte* buffers) override;

 private:
  // The same on both sides.
  struct Mirror {
    DeviceBlock device;
    DeviceBlock pinned;
    std::size_t bytes = 0;

    CopyIn in() const { return {device.get(), pinned.get(), bytes}; }
    CopyOut out() const { return {pinned.get(), device.get(), bytes}; }
  };
  // What comes back besides the gradient.
  struct Figures {
    std::int64_t correct;
    float loss;
  };

  Mirror mirror(std::size_t bytes);
  // Copies the batch to pinned memory, which a Batch is not in, and says what goes up.
  std::array<CopyIn, 4> stage(const Batch& batch, const float* parameters, const std::byte* buffers);
  at::Tensor images(std::size_t size) const;
  at::Tensor labels(std::size_t size) const;
  void set_figure(std::size_t offset, c10::ScalarType type, const at::Tensor& value) const;
  const Figures& figures() const { return *reinterpret_cast<const Figures*>(figures_.pinned.get()); }

  ImageShape image_;
  std::unique_ptr<DeviceMemory> memory_;
  DeviceLane lane_;
  TorchLearner learner_;
  std::size_t parameter_bytes_;
  std::size_t buffer_bytes_;
  DeviceBlock parameters_;
  DeviceBlock buffers_;
  Mirror gradient_;
  Mirror figures_;
  Mirror images_;  // as large as the largest batch so far
  Mirror labels_;
};

}  // namespace shoal
