#include "trainer/pinned_memory.h"

#include <bit>

#include "pipeline/torch_device_memory.h"
#include "store/error.h"

namespace shoal {

PinnedMemory::PinnedMemory(std::uint64_t bytes)
    : memory_(TorchDeviceMemory(c10::Device(c10::kCUDA)).allocate_pinned(bytes)), size_(bytes) {}

std::uint64_t PinnedMemory::within(std::uint64_t wanted, std::uint64_t limit) {
  SHOAL_CHECK(0 < wanted && wanted <= limit);
  return std::bit_ceil(wanted) <= limit ? wanted : std::bit_floor(wanted);
}

}  // namespace shoal
