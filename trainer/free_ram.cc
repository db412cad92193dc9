#include "trainer/free_ram.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "store/error.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// How the two versions of cgroups call the same things.
struct Names {
  const char* limit;
  const char* usage;
  const char* page_cache;  // in memory.stat: what the kernel takes back when it must
};
constexpr Names kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr Names kVersion2 = {"memory.max", "memory.current", "inactive_file"};

// Empty for a file that is not there, and for "max".
std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  std::uint64_t number = 0;
  if (stream >> number) return number;
  return {};
}

std::uint64_t number_after(const fs::path& file, const std::string& key) {
  std::ifstream stream(file);
  std::string name;
  std::uint64_t number = 0;
  while (stream >> name >> number) {
    if (name == key) return number;
  }
  return 0;
}

std::uint64_t room_in(const fs::path& group, const Names& names) {
  const auto limit = number_in(group / names.limit);
  if (!limit) return kNoLimit;
  const std::uint64_t usage = number_in(group / names.usage).value_or(0);
  const std::uint64_t taken = usage - std::min(usage, number_after(group / "memory.stat", names.page_cache));
  return *limit - std::min(*limit, taken);
}

// Limits hold for all groups below. In a container the path may be one that only its host knows: then what is left of
// it is its own root.
std::uint64_t room_along(const fs::path& mount, fs::path path, const Names& names) {
  std::uint64_t room = room_in(mount, names);
  for (path = path.relative_path(); !path.empty(); path = path.parent_path()) {
    room = std::min(room, room_in(mount / path, names));
  }
  return room;
}

// Lines of "number:controllers:path"; version 2 has no controllers there.
std::uint64_t room_in_cgroups(const fs::path& root) {
  std::uint64_t room = kNoLimit;
  std::ifstream groups(root / "proc/self/cgroup");
  const fs::path mounts = root / "sys/fs/cgroup";
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") room = std::min(room, room_along(mounts, path, kVersion2));
    if (controllers.find(",memory,") != std::string::npos) {
      room = std::min(room, room_along(mounts / "memory", path, kVersion1));
    }
  }
  return room;
}

std::uint64_t available(const fs::path& root) {
  std::ifstream meminfo(root / "proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  std::string unit;
  while (meminfo >> key >> kib >> unit) {
    if (key == "MemAvailable:") return kib * 1024;
  }
  throw Error("--ram: give a size; /proc/meminfo does not say what is free", ExitCode::kUsage);
}

}  // namespace

std::uint64_t free_ram(const fs::path& root) { return std::min(available(root), room_in_cgroups(root)); }

}  // namespace shoal
