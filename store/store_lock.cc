#include "store/store_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "store/error.h"

namespace shoal {

StoreLock::StoreLock(const std::filesystem::path& directory, LockKind kind) {
  const std::filesystem::path path = directory / "lock";
  const bool run = kind == LockKind::kRun;
  fd_ = ::open(path.c_str(), (run ? O_RDWR : O_RDONLY) | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) throw_errno(fmt::format("opening {}", path.string()), errno);
  if (::flock(fd_, (run ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
    const int error = errno;
    const bool only_read = run && ::flock(fd_, LOCK_SH | LOCK_NB) == 0;
    char holder[32] = {};
    const ssize_t length = ::read(fd_, holder, sizeof(holder) - 1);
    ::close(fd_);
    if (error != EWOULDBLOCK) throw_errno(fmt::format("locking {}", path.string()), error);
    const std::string user = only_read    ? "being read by another process"
                             : length > 0 ? fmt::format("in use by process {}", holder)
                                          : "in use by process (unknown)";
    throw Error(
        fmt::format("the store in {} is {}; wait for it or choose another directory", directory.string(), user));
  }
  if (!run) return;
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, pid.data(), pid.size(), 0) < 0) {
    const int error = errno;
    ::close(fd_);
    throw_errno(fmt::format("writing {}", path.string()), error);
  }
}

StoreLock::~StoreLock() { ::close(fd_); }

}  // namespace shoal
