#include "pipeline/device_lane.h"

#include <c10/core/StreamGuard.h>

namespace shoal {
namespace {

c10::Stream stream_of(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

}  // namespace

DeviceLane::DeviceLane(c10::Device device, DeviceMemory& memory)
    : memory_(memory),
      copying_in_(stream_of(device)),
      computing_(stream_of(device)),
      copying_out_(stream_of(device)),
      copied_in_(device.type()),
      computed_(device.type()) {}

void DeviceLane::run(std::span<const CopyIn> in, const std::function<void()>& compute, std::span<const CopyOut> out) {
  try {
    enqueue(in, compute, out);
    // The last stage waits for the other two.
    copying_out_.synchronize();
  } catch (...) {
    drain();
    throw;
  }
}

void DeviceLane::enqueue(std::span<const CopyIn> in, const std::function<void()>& compute,
                         std::span<const CopyOut> out) {
  {
    const c10::StreamGuard guard(copying_in_);
    for (const CopyIn& copy : in) memory_.copy_in(copy.device, copy.host, copy.bytes);
    copied_in_.record(copying_in_);
  }
  {
    const c10::StreamGuard guard(computing_);
    copied_in_.block(computing_);
    compute();
    computed_.record(computing_);
  }
  {
    const c10::StreamGuard guard(copying_out_);
    computed_.block(copying_out_);
    for (const CopyOut& copy : out) memory_.copy_out(copy.host, copy.device, copy.bytes);
  }
}

void DeviceLane::drain() noexcept {
  for (const c10::Stream& stream : {copying_in_, computing_, copying_out_}) {
    try {
      stream.synchronize();
    } catch (const std::exception&) {
      // A device that failed says so at every call; the first error is the one that is told.
    }
  }
}

}  // namespace shoal
