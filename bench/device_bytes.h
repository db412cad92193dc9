// What went to and came from storage, so that a page-cache hit cannot pass for a disk read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace shoal::bench {

struct DeviceBytes {
  std::uint64_t read = 0;
  std::uint64_t written = 0;

  DeviceBytes operator-(const DeviceBytes& earlier) const { return {read - earlier.read, written - earlier.written}; }
  DeviceBytes& operator+=(const DeviceBytes& more) {
    read += more.read;
    written += more.written;
    return *this;
  }
  std::uint64_t total() const { return read + written; }
};

// This process's own, from /proc/self/io. Buffered writes count when a page is made dirty. Nothing where the kernel
// does not count.
std::optional<DeviceBytes> process_device_bytes();

// The whole block device's, whoever caused them: the cross-check. Nothing where the directory is on no block device.
class BlockDevice {
 public:
  explicit BlockDevice(const std::filesystem::path& directory);
  std::optional<DeviceBytes> bytes() const;
  const std::string& name() const { return name_; }  // "vda"; empty: none

 private:
  std::filesystem::path stat_file_;
  std::string name_;
};

std::uint64_t peak_rss_bytes();  // of this process, VmHWM
double cpu_seconds();            // of this process, user and system, all threads

}  // namespace shoal::bench
