#include "bench/device_bytes.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <array>
#include <fstream>

namespace shoal::bench {
namespace {

constexpr std::uint64_t kSectorBytes = 512;  // in /sys always, whatever the device's own sectors are

std::optional<std::uint64_t> number_after(const char* file, const std::string& label) {
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    std::uint64_t value = 0;
    if (word == label && in >> value) return value;
  }
  return std::nullopt;
}

}  // namespace

std::optional<DeviceBytes> process_device_bytes() {
  const auto read = number_after("/proc/self/io", "read_bytes:");
  const auto written = number_after("/proc/self/io", "write_bytes:");
  if (!read || !written) return std::nullopt;
  return DeviceBytes{*read, *written};
}

BlockDevice::BlockDevice(const std::filesystem::path& directory) {
  struct stat status = {};
  if (::stat(directory.c_str(), &status) != 0) return;
  const std::filesystem::path device = fmt::format("/sys/dev/block/{}:{}", major(status.st_dev), minor(status.st_dev));
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(device, error);
  if (error) return;
  stat_file_ = device / "stat";
  name_ = target.filename();
}

std::optional<DeviceBytes> BlockDevice::bytes() const {
  std::ifstream in(stat_file_);
  std::array<std::uint64_t, 7> fields{};  // reads, merged, sectors read, ms, writes, merged, sectors written
  for (std::uint64_t& field : fields) in >> field;
  if (!in) return std::nullopt;
  return DeviceBytes{fields[2] * kSectorBytes, fields[6] * kSectorBytes};
}

std::uint64_t peak_rss_bytes() { return number_after("/proc/self/status", "VmHWM:").value_or(0) * 1024; }

double cpu_seconds() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace shoal::bench
