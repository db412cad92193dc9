#include "bench/environment.h"

#include <fmt/format.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "bench/device_bytes.h"

namespace shoal::bench {
namespace {

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::tm parts = {};
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", ::gmtime_r(&now, &parts));
  return text;
}

std::string file_system_of(const std::filesystem::path& directory) {
  struct statfs status = {};
  if (::statfs(directory.c_str(), &status) != 0) return "unknown";
  switch (static_cast<unsigned long>(status.f_type)) {
    case 0xef53: return "ext4";
    case 0x58465342: return "xfs";
    case 0x9123683e: return "btrfs";
    case 0x01021994: return "tmpfs";
    case 0x6969: return "nfs";
    case 0x794c7630: return "overlayfs";
    case 0xf2f52010: return "f2fs";
    case 0x2fc12fc1: return "zfs";
    default: return fmt::format("type {:#x}", static_cast<unsigned long>(status.f_type));
  }
}

}  // namespace

nlohmann::json describe_environment(const BenchOptions& options, const std::filesystem::path& directory) {
  struct utsname system = {};
  ::uname(&system);
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGESIZE);
  return {
    {"time", utc_now()}, {"version", SHOAL_VERSION}, {"compiler", __VERSION__},
#if defined(__OPTIMIZE__)
        {"optimized", true},
#else
        {"optimized", false},
#endif
        {"kernel", system.release}, {"cpu", cpu_model()}, {"cores", std::thread::hardware_concurrency()},
        {"memory_bytes", static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page)},
        {"directory", directory.string()}, {"file_system", file_system_of(directory)},
        {"block_device", BlockDevice(directory).name()}, {"layout", options.layout_name},
        {"record_bytes",
         {{"public", options.layout.record_bytes(Part::kPublic)},
          {"private", options.layout.record_bytes(Part::kPrivate)}}},
        {"state_bytes", options.state_bytes()}, {"degree", options.degree}, {"seed", options.seed},
        {"threads", options.threads}, {"warmup", options.warmup}, {"queue_depth", options.queue_depth},
        {"submit_batch", options.submit_batch}, {"prefetch_bytes", options.prefetch_bytes},
  };
}

}  // namespace shoal::bench
