// Device memory and copies through ATen.
#pragma once

#include <c10/core/Device.h>

#include "pipeline/device_memory.h"

namespace shoal {

class TorchDeviceMemory final : public DeviceMemory {
 public:
  explicit TorchDeviceMemory(c10::Device device) : device_(device) {}

  DeviceBlock allocate(std::size_t bytes) override;
  // An Error where this LibTorch has no device to pin it for.
  DeviceBlock allocate_pinned(std::size_t bytes) override;
  void copy_in(std::byte* device, const std::byte* host, std::size_t bytes) override;
  void copy_out(std::byte* host, const std::byte* device, std::size_t bytes) override;

 private:
  c10::Device device_;
};

}  // namespace shoal
