// One open slab file: what the devices over real files (io_uring, posix, mapped) have in common.
//
// Owns the descriptor. Not thread-safe; transfer() is, it knows only the descriptor.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "store/io_device.h"

namespace shoal {

enum class Caching { kDirect, kPageCache };
enum class FileAccess { kReadWrite, kReadOnly };

class BlockFile {
 public:
  // kDirect where the file system refuses O_DIRECT opens through the page cache; direct_refusal() then says why.
  BlockFile(const std::filesystem::path& path, OpenMode mode, Caching caching,
            FileAccess access = FileAccess::kReadWrite);
  ~BlockFile();
  BlockFile(const BlockFile&) = delete;
  BlockFile& operator=(const BlockFile&) = delete;

  int fd() const { return fd_; }
  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  const std::string& direct_refusal() const { return direct_refusal_; }

  // As in IoDevice.
  void resize(std::uint64_t bytes);
  void allocate(std::uint64_t offset, std::uint64_t length);
  void punch(std::uint64_t offset, std::uint64_t length);
  void sync();

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::string direct_refusal_;
};

// The file operations of a device over such files; how bytes move is up to the device.
class FileDevice : public IoDevice {
 public:
  const std::filesystem::path& path(FileId file) const override { return at(file).path(); }
  std::uint64_t size(FileId file) const override { return at(file).size(); }
  void resize(FileId file, std::uint64_t bytes) override { at(file).resize(bytes); }
  void allocate(FileId file, std::uint64_t offset, std::uint64_t length) override { at(file).allocate(offset, length); }
  void punch(FileId file, std::uint64_t offset, std::uint64_t length) override { at(file).punch(offset, length); }
  void sync(FileId file) override { at(file).sync(); }

 protected:
  BlockFile& at(FileId file);
  const BlockFile& at(FileId file) const;
  FileId add(const std::filesystem::path& path, OpenMode mode, Caching caching);
  std::size_t file_count() const { return files_.size(); }
  // One report for all files that O_DIRECT was refused for; none if it was not.
  void report_direct_refusals(std::vector<ModeReport>& reports) const;

 private:
  std::deque<BlockFile> files_;  // not a vector: path() hands out references that outlive the next open()
};

// What a request that is not wholly inside its file completes with; 0 if it is inside. A device never reads past the
// end nor grows a file by writing: the mapped one could not, so none does.
std::int64_t outside_file(const IoRequest& request, std::uint64_t file_size);

// Blocking, in full; the result as in IoCompletion. Any thread.
std::int64_t transfer(int fd, const IoRequest& request);

// Aborts on a request that no device could take: a bug in the caller.
void check_request(const IoRequest& request, std::size_t file_count);

// "cannot punch a hole into /nvme/public.slab (offset 4096, length 8192): Input/output error (errno 5)".
[[noreturn]] void throw_io_error(std::string_view doing, const std::filesystem::path& path, std::uint64_t offset,
                                 std::uint64_t length, int error_number);

}  // namespace shoal
