// How much memory a CUDA device has free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace shoal {

// `device` is what --device says. Empty where that is none of CUDA's, or CUDA cannot tell. The device's context, which
// asking makes in this process, counts as taken.
std::optional<std::uint64_t> free_device_memory(const std::string& device);

}  // namespace shoal
