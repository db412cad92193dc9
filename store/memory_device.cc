#include "store/memory_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>

#include "store/block_file.h"
#include "store/error.h"

namespace shoal {

namespace {

class MemoryDevice final : public IoDevice {
 public:
  MemoryDevice(std::shared_ptr<MemoryFiles> files, unsigned depth) : files_(std::move(files)), depth_(depth) {
    SHOAL_CHECK(depth > 0);
    pending_.reserve(depth);
  }

  std::string_view name() const override { return "memory"; }
  std::vector<ModeReport> modes() const override { return {}; }

  FileId open(const std::filesystem::path& path, OpenMode mode) override {
    if (mode == OpenMode::kExisting && !files_->contains(path)) {
      throw_errno(fmt::format("cannot open existing file {}", path.string()), ENOENT);
    }
    MemoryFiles::Bytes& bytes = (*files_)[path];
    if (mode == OpenMode::kCreate) bytes.clear();
    opened_.push_back({path, &bytes});
    return static_cast<FileId>(opened_.size() - 1);
  }

  const std::filesystem::path& path(FileId file) const override { return at(file).path; }
  std::uint64_t size(FileId file) const override { return at(file).bytes->size(); }
  void resize(FileId file, std::uint64_t bytes) override { at(file).bytes->resize(bytes); }

  void allocate(FileId file, std::uint64_t, std::uint64_t) override { at(file); }

  void punch(FileId file, std::uint64_t offset, std::uint64_t length) override {
    MemoryFiles::Bytes& bytes = *at(file).bytes;
    if (offset < bytes.size()) std::memset(bytes.data() + offset, 0, std::min(length, bytes.size() - offset));
  }

  void sync(FileId file) override { at(file); }

  void submit(std::span<const IoRequest> requests) override {
    for (const IoRequest& request : requests) {
      check_request(request, opened_.size());
      SHOAL_CHECK(pending_.size() < depth_);
      pending_.push_back(request);
    }
  }

  void wait(WaitMode mode, std::vector<IoCompletion>& done) override {
    if (mode == WaitMode::kBlock && pending_.empty()) {
      woken_.wait(0);
      woken_.exchange(0);
      return;
    }
    for (const IoRequest& request : pending_) done.push_back({request.tag, carry_out(request)});
    pending_.clear();
  }

  void wake() noexcept override {
    if (woken_.exchange(1) == 0) woken_.notify_one();
  }

  unsigned depth() const override { return depth_; }
  std::byte* in_place(FileId, std::uint64_t) override { return nullptr; }

 private:
  struct Opened {
    std::filesystem::path path;
    MemoryFiles::Bytes* bytes;
  };

  const Opened& at(FileId file) const {
    SHOAL_CHECK(file < opened_.size());
    return opened_[file];
  }

  std::int64_t carry_out(const IoRequest& request) {
    MemoryFiles::Bytes& bytes = *opened_[request.file].bytes;
    if (const std::int64_t error = outside_file(request, bytes.size()); error != 0) return error;
    std::byte* stored = bytes.data() + request.offset;
    if (request.op == IoRequest::Op::kRead) {
      std::memcpy(request.data, stored, request.length);
    } else {
      std::memcpy(stored, request.data, request.length);
    }
    return request.length;
  }

  std::shared_ptr<MemoryFiles> files_;
  std::deque<Opened> opened_;  // not a vector: path() hands out references that outlive the next open()
  unsigned depth_;
  std::vector<IoRequest> pending_;
  std::atomic<int> woken_ = 0;
};

}  // namespace

std::unique_ptr<IoDevice> make_memory_device(std::shared_ptr<MemoryFiles> files, const DeviceOptions& options) {
  return std::make_unique<MemoryDevice>(std::move(files), options.depth);
}

}  // namespace shoal
