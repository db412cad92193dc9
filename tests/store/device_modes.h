// What a device says of its modes.
#pragma once

#include <string_view>

#include "store/io_device.h"

namespace shoal {

// The device's report of that name, or one with nothing in it.
inline ModeReport mode_of(const IoDevice& device, std::string_view what) {
  for (const ModeReport& mode : device.modes()) {
    if (mode.what == what) return mode;
  }
  return {};
}

}  // namespace shoal
