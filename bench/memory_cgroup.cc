#include "bench/memory_cgroup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <thread>
#include <utility>

#include "store/error.h"

namespace shoal::bench {
namespace {

namespace fs = std::filesystem;

struct Hierarchy {
  fs::path parent;
  const char* limit_file;
};

// This process's line in /proc/self/cgroup: "4:memory:/path" (version 1) or "0::/path" (version 2).
std::optional<Hierarchy> find_hierarchy() {
  std::ifstream in("/proc/self/cgroup");
  std::optional<Hierarchy> second;
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t colon = line.find(':', first + 1);
    if (colon == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, colon - first - 1) + ",";
    const std::string path = line.substr(colon + 1);
    if (controllers.find(",memory,") != std::string::npos) {
      return Hierarchy{fs::path("/sys/fs/cgroup/memory" + path), "memory.limit_in_bytes"};
    }
    // A version 2 group with processes in it can't hand memory on to a child; one beside it can.
    if (controllers == ",,") second = Hierarchy{fs::path("/sys/fs/cgroup" + path).parent_path(), "memory.max"};
  }
  return second;
}

// Not an ofstream: the kernel's refusal comes with the write, and its errno is the reason.
int write_text(const fs::path& file, const std::string& text) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error = ::write(fd, text.data(), text.size()) < 0 ? errno : 0;
  ::close(fd);
  return error;
}

}  // namespace

std::optional<MemoryCgroup> MemoryCgroup::create(std::uint64_t limit_bytes, std::string& reason) {
  if (kSanitized) {
    reason = "this is a sanitizer's build";
    return std::nullopt;
  }
  const std::optional<Hierarchy> hierarchy = find_hierarchy();
  if (!hierarchy) {
    reason = "this machine has no memory cgroups";
    return std::nullopt;
  }
  fs::path path = hierarchy->parent / fmt::format("shoal-store-bench-{}", ::getpid());
  std::error_code error;
  fs::create_directory(path, error);
  if (error) {
    reason = fmt::format("creating {}: {}", path.string(), error.message());
    return std::nullopt;
  }
  MemoryCgroup cgroup(path, limit_bytes);
  if (const int refused = write_text(path / hierarchy->limit_file, std::to_string(limit_bytes)); refused != 0) {
    reason = fmt::format("writing {}: {}", (path / hierarchy->limit_file).string(), errno_text(refused));
    return std::nullopt;
  }
  return cgroup;
}

MemoryCgroup::MemoryCgroup(MemoryCgroup&& other) noexcept
    : path_(std::exchange(other.path_, {})), limit_bytes_(other.limit_bytes_) {}

MemoryCgroup::~MemoryCgroup() {
  if (path_.empty()) return;
  // The kernel may need a moment to let go of a process that was just waited for.
  for (int attempt = 0; attempt < 50 && ::rmdir(path_.c_str()) != 0 && errno == EBUSY; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void MemoryCgroup::join() const {
  if (const int error = write_text(path_ / "cgroup.procs", "0"); error != 0) {
    throw_errno(fmt::format("joining {}", path_.string()), error);
  }
}

}  // namespace shoal::bench
