// Memory of a device, and the copies to it and back.
//
// A copy is put on the calling thread's current stream and may run long after the call: both its ends must stay as they
// are until that stream has passed it. DeviceLane is who waits.
#pragma once

#include <cstddef>
#include <memory>

namespace shoal {

// Goes back by itself. Null for 0 bytes.
using DeviceBlock = std::shared_ptr<std::byte>;

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Of undefined contents.
  virtual DeviceBlock allocate(std::size_t bytes) = 0;
  // Host memory that the device reaches by itself. A copy from or to other host memory is as right, but the host, or
  // the device, waits for it.
  virtual DeviceBlock allocate_pinned(std::size_t bytes) = 0;

  virtual void copy_in(std::byte* device, const std::byte* host, std::size_t bytes) = 0;
  virtual void copy_out(std::byte* host, const std::byte* device, std::size_t bytes) = 0;
};

}  // namespace shoal
