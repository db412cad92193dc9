// Makes the device that a user asked for, or says which one took its place and why.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "store/io_device.h"

namespace shoal {

struct DeviceOptions {
  unsigned depth = 16;             // requests in flight, at most
  std::span<std::byte> buffers{};  // memory that requests will mostly point into: the arena. Registered where possible
  std::uint64_t map_reserve_bytes =
      1 << 30;  // address space the mapped device reserves per file: the most a file may grow to
};

// The user's word for it: `--store-io auto|direct|posix|mapped`.
enum class IoEngine { kAuto, kDirect, kPosix, kMapped };
IoEngine parse_io_engine(std::string_view text);  // throws a usage Error that lists the choices
std::string_view name(IoEngine engine);

struct DeviceChoice {
  std::unique_ptr<IoDevice> device;
  ModeReport report;  // what == "slab I/O"
};

// `auto`: mapped where files are memory already (tmpfs, DAX) or O_DIRECT is refused, else io_uring, else posix.
// `direct` falls back to posix where io_uring is missing, and says so. Tries things out with a small temporary file in
// `directory`.
DeviceChoice choose_device(IoEngine requested, const std::filesystem::path& directory, const DeviceOptions& options);

std::unique_ptr<IoDevice> make_uring_device(
    const DeviceOptions& options);  // throws Error where the kernel has no io_uring for us
std::unique_ptr<IoDevice> make_posix_device(const DeviceOptions& options);
std::unique_ptr<IoDevice> make_mapped_device(const DeviceOptions& options);

}  // namespace shoal
