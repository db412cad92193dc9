// One worker thread's way to a device and back: copy in, compute, copy out, each on a stream of its own.
//
// run() returns when the last copy out is done, so a frame that it copied from or to may be written or given back at
// once. Within one run the three stages follow each other; it is the lanes of different threads that overlap: while one
// computes, the device's copy engines serve the others. So two lanes are enough to hide the copies, and a second set of
// buffers in a lane would never be used.
//
// Works with every device type whose guard knows streams and events (c10::impl::DeviceGuardImplInterface). Used by one
// thread at a time.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <functional>
#include <span>

#include "pipeline/device_memory.h"

namespace shoal {

struct CopyIn {
  std::byte* device;
  const std::byte* host;
  std::size_t bytes;
};

struct CopyOut {
  std::byte* host;
  const std::byte* device;
  std::size_t bytes;
};

class DeviceLane {
 public:
  // The memory's owner keeps it.
  DeviceLane(c10::Device device, DeviceMemory& memory);

  // `compute` puts its work on the current stream and waits for nothing. If anything throws, what was put on the
  // streams is waited for before the exception goes on.
  void run(std::span<const CopyIn> in, const std::function<void()>& compute, std::span<const CopyOut> out);

 private:
  void enqueue(std::span<const CopyIn> in, const std::function<void()>& compute, std::span<const CopyOut> out);
  void drain() noexcept;

  DeviceMemory& memory_;
  c10::Stream copying_in_;
  c10::Stream computing_;
  c10::Stream copying_out_;
  c10::Event copied_in_;
  c10::Event computed_;
};

}  // namespace shoal
