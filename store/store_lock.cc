#include "store/store_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "store/error.h"

namespace shoal {

StoreLock::StoreLock(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "lock";
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) throw_errno(fmt::format("opening {}", path.string()), errno);
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    char holder[32] = {};
    const ssize_t length = ::read(fd_, holder, sizeof(holder) - 1);
    ::close(fd_);
    if (error != EWOULDBLOCK) throw_errno(fmt::format("locking {}", path.string()), error);
    throw Error(fmt::format("the store in {} is in use by process {}; wait for it or choose another directory",
                            directory.string(), length > 0 ? std::string(holder) : "(unknown)"));
  }
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, pid.data(), pid.size(), 0) < 0) {
    const int error = errno;
    ::close(fd_);
    throw_errno(fmt::format("writing {}", path.string()), error);
  }
}

StoreLock::~StoreLock() { ::close(fd_); }

}  // namespace shoal
