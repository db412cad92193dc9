#include "pipeline/torch_device_memory.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include "store/error.h"
#include "store/size_text.h"

namespace shoal {
namespace {

DeviceBlock block_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), [tensor](std::byte*) {}};
}

at::Tensor bytes_at(const std::byte* memory, std::size_t bytes, c10::Device device) {
  // With the device named, from_blob does not ask the driver whose memory it is.
  return at::for_blob(const_cast<std::byte*>(memory), {static_cast<std::int64_t>(bytes)})
      .options(at::TensorOptions(c10::kByte).device(device))
      .target_device(device)
      .make_tensor();
}

void copy(const at::Tensor& from, const at::Tensor& to) { to.copy_(from, /*non_blocking=*/true); }

}  // namespace

DeviceBlock TorchDeviceMemory::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  return block_of(at::empty({static_cast<std::int64_t>(bytes)}, at::TensorOptions(c10::kByte).device(device_)));
}

DeviceBlock TorchDeviceMemory::allocate_pinned(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  try {
    return block_of(at::empty({static_cast<std::int64_t>(bytes)}, at::TensorOptions(c10::kByte).pinned_memory(true)));
  } catch (const c10::Error& error) {
    throw Error(
        fmt::format("{} of pinned memory for {}: {}", size_text(bytes), device_.str(), error.what_without_backtrace()));
  }
}

void TorchDeviceMemory::copy_in(std::byte* device, const std::byte* host, std::size_t bytes) {
  if (bytes != 0) copy(bytes_at(host, bytes, c10::kCPU), bytes_at(device, bytes, device_));
}

void TorchDeviceMemory::copy_out(std::byte* host, const std::byte* device, std::size_t bytes) {
  if (bytes != 0) copy(bytes_at(device, bytes, device_), bytes_at(host, bytes, c10::kCPU));
}

}  // namespace shoal
