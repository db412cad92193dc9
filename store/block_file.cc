#include "store/block_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "store/error.h"
#include "store/types.h"

namespace shoal {

namespace {

constexpr ::mode_t kFileMode = 0644;

int open_retrying(const std::filesystem::path& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, kFileMode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// Reads that update the time of the last one wait for the file system's journal now and then, and were 3 % of the
// engine's time. Only a file's owner may do without, and not on every file system.
int open_untimed(const std::filesystem::path& path, int flags) {
  const int fd = open_retrying(path, flags | O_NOATIME);
  return fd < 0 && (errno == EPERM || errno == EINVAL) ? open_retrying(path, flags) : fd;
}

// A new file is lost in a power failure until its directory is on disk, however often the file itself is synced.
void sync_directory(const std::filesystem::path& directory) {
  const int fd = open_retrying(directory.empty() ? "." : directory, O_RDONLY | O_DIRECTORY);
  if (fd < 0) throw_errno(fmt::format("cannot open directory {}", directory.string()), errno);
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  // Some file systems know no fsync of directories, and say EINVAL.
  if (error != 0 && error != EINVAL) throw_errno(fmt::format("cannot sync directory {}", directory.string()), error);
}

// fallocate() and ftruncate(), repeated when a signal came; 0 or the errno.
int allocate_blocks(int fd, int mode, std::uint64_t offset, std::uint64_t length) {
  int result = 0;
  do {
    result = ::fallocate(fd, mode, static_cast<::off_t>(offset), static_cast<::off_t>(length));
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

int truncate_file(int fd, std::uint64_t bytes) {
  int result = 0;
  do {
    result = ::ftruncate(fd, static_cast<::off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

}  // namespace

BlockFile::BlockFile(const std::filesystem::path& path, OpenMode mode, Caching caching, FileAccess access)
    : path_(path) {
  const int flags =
      (access == FileAccess::kReadOnly ? O_RDONLY : O_RDWR) | (mode == OpenMode::kCreate ? O_CREAT | O_TRUNC : 0);
  if (caching == Caching::kDirect) {
    fd_ = open_untimed(path, flags | O_DIRECT);
    if (fd_ < 0 && errno == EINVAL) direct_refusal_ = fmt::format("open {}: {}", path.string(), errno_text(EINVAL));
  }
  if (caching == Caching::kPageCache || !direct_refusal_.empty()) fd_ = open_untimed(path, flags);
  if (fd_ < 0) {
    throw_errno(fmt::format("cannot {} {}", mode == OpenMode::kCreate ? "create" : "open existing file", path.string()),
                errno);
  }
  try {
    struct ::stat status {};
    if (::fstat(fd_, &status) != 0) throw_errno(fmt::format("cannot stat {}", path.string()), errno);
    if (!S_ISREG(status.st_mode)) throw Error(fmt::format("{} is not a regular file", path.string()));
    size_ = static_cast<std::uint64_t>(status.st_size);
    if (mode == OpenMode::kCreate) sync_directory(path.parent_path());
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

BlockFile::~BlockFile() { ::close(fd_); }

void BlockFile::resize(std::uint64_t bytes) {
  if (bytes > size_) {
    if (const int error = allocate_blocks(fd_, 0, size_, bytes - size_); error != 0) {
      // A full disk may have given, and kept, a part of what was asked for.
      truncate_file(fd_, size_);
      throw_io_error("cannot grow", path_, size_, bytes - size_, error);
    }
  } else if (bytes < size_) {
    if (const int error = truncate_file(fd_, bytes); error != 0) {
      throw_io_error("cannot shrink", path_, bytes, size_ - bytes, error);
    }
  }
  size_ = bytes;
}

void BlockFile::allocate(std::uint64_t offset, std::uint64_t length) {
  if (const int error = allocate_blocks(fd_, FALLOC_FL_KEEP_SIZE, offset, length); error != 0) {
    throw_io_error("cannot allocate blocks of", path_, offset, length, error);
  }
}

void BlockFile::punch(std::uint64_t offset, std::uint64_t length) {
  const int error = allocate_blocks(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length);
  if (error != 0) throw_io_error("cannot punch a hole into", path_, offset, length, error);
}

void BlockFile::sync() {
  // Also writes what was stored through a mapping, and the size and extents that the data is found by.
  if (::fdatasync(fd_) != 0) throw_io_error("cannot sync", path_, 0, size_, errno);
}

BlockFile& FileDevice::at(FileId file) {
  SHOAL_CHECK(file < files_.size());
  return files_[file];
}

const BlockFile& FileDevice::at(FileId file) const {
  SHOAL_CHECK(file < files_.size());
  return files_[file];
}

FileId FileDevice::add(const std::filesystem::path& path, OpenMode mode, Caching caching) {
  files_.emplace_back(path, mode, caching);
  return static_cast<FileId>(files_.size() - 1);
}

void FileDevice::report_direct_refusals(std::vector<ModeReport>& reports) const {
  for (const BlockFile& file : files_) {
    if (file.direct_refusal().empty()) continue;
    reports.push_back({"O_DIRECT", "O_DIRECT", "page cache", file.direct_refusal()});
    return;
  }
}

std::int64_t outside_file(const IoRequest& request, std::uint64_t file_size) {
  if (request.offset <= file_size && request.length <= file_size - request.offset) return 0;
  return request.op == IoRequest::Op::kRead ? -ENODATA : -EFBIG;
}

std::int64_t transfer(int fd, const IoRequest& request) {
  std::uint32_t done = 0;
  while (done < request.length) {
    std::byte* data = request.data + done;
    const std::size_t rest = request.length - done;
    const auto offset = static_cast<::off_t>(request.offset + done);
    const ::ssize_t count = request.op == IoRequest::Op::kRead ? ::pread(fd, data, rest, offset)  //
                                                               : ::pwrite(fd, data, rest, offset);
    if (count < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return -errno;
    }
    // Nothing moved and no error: the file is shorter than it was, or the device takes no more. Not to be repeated.
    if (count == 0) return request.op == IoRequest::Op::kRead ? -ENODATA : -EIO;
    done += static_cast<std::uint32_t>(count);
  }
  return done;
}

void check_request(const IoRequest& request, std::size_t file_count) {
  SHOAL_CHECK(request.file < file_count);
  SHOAL_CHECK(request.length > 0);
  SHOAL_CHECK(request.length % kBlockBytes == 0);
  SHOAL_CHECK(request.offset % kBlockBytes == 0);
  SHOAL_CHECK(reinterpret_cast<std::uintptr_t>(request.data) % kBlockBytes == 0);
}

void throw_io_error(std::string_view doing, const std::filesystem::path& path, std::uint64_t offset,
                    std::uint64_t length, int error_number) {
  std::string message =
      fmt::format("{} {} (offset {}, length {}): {}", doing, path.string(), offset, length, errno_text(error_number));
  if (error_number == ENOSPC) message += "; free some space on that file system, or put the store on a larger one";
  if (error_number == EOPNOTSUPP) message += "; a store needs a file system with fallocate: ext4, xfs, btrfs or tmpfs";
  throw Error(message);
}

}  // namespace shoal
