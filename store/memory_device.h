// A device whose files are in memory: for tests, which need neither a disk nor a clean-up.
//
// The bytes belong to a MemoryFiles that outlives the device, so that a store can be closed and opened again, and a
// test can look at the bytes, or damage them, in between.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "store/device_choice.h"
#include "store/io_device.h"

namespace shoal {

// Not thread-safe: the device's owner thread while there is a device, the test's otherwise.
class MemoryFiles {
 public:
  using Bytes = std::vector<std::byte>;

  bool contains(const std::filesystem::path& path) const { return files_.contains(path); }
  Bytes& operator[](const std::filesystem::path& path) { return files_[path]; }  // made empty if missing

 private:
  std::map<std::filesystem::path, Bytes> files_;  // a map: addresses of its Bytes stay
};

std::unique_ptr<IoDevice> make_memory_device(std::shared_ptr<MemoryFiles> files, const DeviceOptions& options);

}  // namespace shoal
