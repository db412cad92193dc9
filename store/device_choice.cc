#include "store/device_choice.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "store/error.h"
#include "store/types.h"

namespace shoal {

namespace {

constexpr std::pair<IoEngine, std::string_view> kEngines[] = {{IoEngine::kAuto, "auto"},
                                                              {IoEngine::kDirect, "direct"},
                                                              {IoEngine::kPosix, "posix"},
                                                              {IoEngine::kMapped, "mapped"}};

// What the names of the devices are in reports.
constexpr const char* kUring = "io_uring";
constexpr const char* kPosix = "posix";
constexpr const char* kMapped = "mapped";

// What a directory's files are like, found out with a file that is gone when this returns.
struct FileTrial {
  std::string memory;          // the files are memory already: the word for it; empty if they are not
  std::string direct_refusal;  // why O_DIRECT is not possible; empty if it is

  explicit FileTrial(const std::filesystem::path& directory) {
    std::string path = (directory / ".shoal-trial-XXXXXX").string();
    const int fd = ::mkostemp(path.data(), O_CLOEXEC);
    if (fd < 0) throw_errno(fmt::format("cannot create a file in {}", directory.string()), errno);
    const int direct = ::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
    const int open_error = direct < 0 ? errno : 0;
    ::unlink(path.c_str());
    if (open_error != 0) {
      direct_refusal = fmt::format("open with O_DIRECT in {}: {}", directory.string(), errno_text(open_error));
    } else {
      try_direct_write(direct, directory);
      ::close(direct);
    }
    find_memory(fd);
    ::close(fd);
  }

 private:
  // Some file systems accept the flag and refuse the first transfer.
  void try_direct_write(int fd, const std::filesystem::path& directory) {
    alignas(kBlockBytes) static const std::byte kBlock[kBlockBytes] = {};
    if (::pwrite(fd, kBlock, sizeof kBlock, 0) < 0 && errno == EINVAL) {
      direct_refusal = fmt::format("write with O_DIRECT in {}: {}", directory.string(), errno_text(EINVAL));
    }
  }

  void find_memory(int fd) {
    struct ::statfs file_system {};
    if (::fstatfs(fd, &file_system) == 0 && file_system.f_type == TMPFS_MAGIC) memory = "tmpfs";
    struct ::statx attributes {};
    if (::statx(fd, "", AT_EMPTY_PATH, 0, &attributes) == 0 && (attributes.stx_attributes & STATX_ATTR_DAX) != 0) {
      memory = "DAX";
    }
  }
};

DeviceChoice make_direct(const DeviceOptions& options) {
  try {
    return {make_uring_device(options), {"slab I/O", kUring, kUring, ""}};
  } catch (const Error& error) {
    return {make_posix_device(options), {"slab I/O", kUring, kPosix, error.what()}};
  }
}

}  // namespace

IoEngine parse_io_engine(std::string_view text) {
  for (const auto& [engine, word] : kEngines) {
    if (text == word) return engine;
  }
  throw Error(fmt::format("unknown store I/O '{}'; choose one of auto, direct, posix, mapped", text), ExitCode::kUsage);
}

std::string_view name(IoEngine engine) {
  for (const auto& [candidate, word] : kEngines) {
    if (engine == candidate) return word;
  }
  return "?";
}

DeviceChoice choose_device(IoEngine requested, const std::filesystem::path& directory, const DeviceOptions& options) {
  const FileTrial trial(directory);
  switch (requested) {
    case IoEngine::kPosix: return {make_posix_device(options), {"slab I/O", kPosix, kPosix, ""}};
    case IoEngine::kMapped: return {make_mapped_device(options), {"slab I/O", kMapped, kMapped, ""}};
    case IoEngine::kDirect: return make_direct(options);
    case IoEngine::kAuto: break;
  }
  if (!trial.memory.empty()) {
    // The best there is for such files, so nothing was lost against what was asked for.
    return {make_mapped_device(options),
            {"slab I/O", kMapped, kMapped, fmt::format("files on {} are memory already", trial.memory)}};
  }
  if (!trial.direct_refusal.empty()) {
    return {make_mapped_device(options), {"slab I/O", kUring, kMapped, trial.direct_refusal}};
  }
  return make_direct(options);
}

}  // namespace shoal
