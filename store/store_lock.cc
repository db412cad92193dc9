#include "store/store_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "store/error.h"

namespace shoal {

namespace {

// A lock on a file that its last holder has deleted keeps nobody out.
bool is_at(int fd, const std::filesystem::path& path) {
  struct ::stat held {};
  struct ::stat there {};
  return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &there) == 0 && held.st_dev == there.st_dev &&
         held.st_ino == there.st_ino;
}

[[noreturn]] void refuse(int fd, const std::filesystem::path& directory, LockKind kind) {
  const bool only_read = kind == LockKind::kRun && ::flock(fd, LOCK_SH | LOCK_NB) == 0;
  char holder[32] = {};
  const ssize_t length = ::read(fd, holder, sizeof(holder) - 1);
  ::close(fd);
  const std::string user = only_read    ? "being read by another process"
                           : length > 0 ? fmt::format("in use by process {}", holder)
                                        : "in use by process (unknown)";
  throw Error(fmt::format("the store in {} is {}; wait for it or choose another directory", directory.string(), user));
}

}  // namespace

StoreLock::StoreLock(const std::filesystem::path& directory, LockKind kind) : path_(directory / "lock"), fd_(-1) {
  const bool run = kind == LockKind::kRun;
  for (;;) {
    fd_ = ::open(path_.c_str(), (run ? O_RDWR : O_RDONLY) | O_CREAT | O_CLOEXEC, 0644);
    if (fd_ < 0) throw_errno(fmt::format("opening {}", path_.string()), errno);
    if (::flock(fd_, (run ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) refuse(fd_, directory, kind);
      const int error = errno;
      ::close(fd_);
      throw_errno(fmt::format("locking {}", path_.string()), error);
    }
    if (is_at(fd_, path_)) break;
    ::close(fd_);
  }
  if (!run) return;
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, pid.data(), pid.size(), 0) < 0) {
    const int error = errno;
    ::close(fd_);
    throw_errno(fmt::format("writing {}", path_.string()), error);
  }
}

StoreLock::~StoreLock() { ::close(fd_); }

void StoreLock::remove_file() { std::filesystem::remove(path_); }

}  // namespace shoal
