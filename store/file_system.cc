#include "store/file_system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>

#include "store/error.h"

namespace shoal {
namespace {

std::filesystem::path nearest_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::path path = std::filesystem::absolute(folder);
  while (!std::filesystem::exists(path, ignored) && path != path.parent_path()) path = path.parent_path();
  return path;
}

// With a file that has no name and is gone at once. Where that cannot be, nothing is known.
bool refuses_direct_io(const std::filesystem::path& folder) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
  if (file < 0) return errno == EINVAL;
  ::close(file);
  return false;
}

}  // namespace

FileSystem file_system_of(const std::filesystem::path& folder) {
  const std::filesystem::path there = nearest_folder(folder);
  struct ::stat status {};
  struct ::statfs space {};
  if (::stat(there.c_str(), &status) != 0 || ::statfs(there.c_str(), &space) != 0) {
    throw_errno(fmt::format("looking at the disk of {}", folder.string()), errno);
  }
  FileSystem found;
  found.id = status.st_dev;
  found.free_bytes = static_cast<std::uint64_t>(space.f_bavail) * static_cast<std::uint64_t>(space.f_bsize);
  found.is_memory = space.f_type == TMPFS_MAGIC;
  found.takes_direct_io = !refuses_direct_io(there);
  return found;
}

}  // namespace shoal
