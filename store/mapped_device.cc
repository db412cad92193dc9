// The file is mapped and its records are used where they lie: for files that are memory already (tmpfs, DAX) and file
// systems without O_DIRECT.
//
// Stored bytes go through the mapping; requests that copy go through pread() and pwrite() on the same page cache,
// because a full disk or a bad block is then an errno and not a SIGBUS. For the same reason a read in place maps its
// pages before it completes (MADV_POPULATE_READ), and a file is never larger than its allocated blocks.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "store/block_file.h"
#include "store/device_choice.h"
#include "store/error.h"
#include "store/types.h"

// Linux 5.14; older headers do not have it, older kernels say EINVAL.
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace shoal {

namespace {

class Mapping {
 public:
  Mapping() = default;
  Mapping(const BlockFile& file, std::size_t bytes) : bytes_(bytes) {
    // Longer than the file: the pages beyond its end become usable as it grows, at addresses that never change.
    void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.fd(), 0);
    if (address == MAP_FAILED) throw_io_error("cannot map", file.path(), 0, bytes, errno);
    base_ = static_cast<std::byte*>(address);
    // The plan says what is needed; the kernel's read-around would fill the RAM with what lies beside it.
    ::madvise(address, bytes, MADV_RANDOM);
  }
  ~Mapping() {
    if (base_ != nullptr) ::munmap(base_, bytes_);
  }
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* at(std::uint64_t offset) const { return base_ + offset; }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

class MappedDevice final : public FileDevice {
 public:
  explicit MappedDevice(const DeviceOptions& options)
      : reserve_(round_up(options.map_reserve_bytes, kBlockBytes)), pending_(options.depth) {
    SHOAL_CHECK(options.depth > 0);
    if (::sysconf(_SC_PAGESIZE) != kBlockBytes) {
      throw Error(fmt::format("mapped slabs need pages of {} bytes; use --store-io direct", kBlockBytes));
    }
  }

  std::string_view name() const override { return "mapped"; }
  std::vector<ModeReport> modes() const override { return {}; }

  FileId open(const std::filesystem::path& path, OpenMode mode) override {
    const FileId id = add(path, mode, Caching::kPageCache);
    mappings_.resize(file_count());  // one place per FileId, also if this one fails
    check_reserve(id, size(id));
    mappings_[id] = Mapping(at(id), reserve_);
    return id;
  }

  void resize(FileId file, std::uint64_t bytes) override {
    check_reserve(file, bytes);
    at(file).resize(bytes);
  }

  void submit(std::span<const IoRequest> requests) override {
    for (const IoRequest& request : requests) {
      check_request(request, file_count());
      SHOAL_CHECK(queued_ < pending_.size());
      const std::int64_t error = outside_file(request, size(request.file));
      pending_[(first_ + queued_) % pending_.size()] = {request, error};
      ++queued_;
      if (error == 0 && request.op == IoRequest::Op::kRead) {
        ::madvise(mapped(request), request.length, MADV_WILLNEED);
      }
    }
  }

  // Reads complete in the order of submission, and not before their pages are there, unless the caller has nothing
  // else to do: so a caller that keeps depth() requests pending gives read-ahead the time it needs.
  void wait(WaitMode mode, std::vector<IoCompletion>& done) override {
    const std::size_t before = done.size();
    complete_what_is_there(done);
    if (mode == WaitMode::kPoll || done.size() > before) return;
    if (queued_ > 0) {
      complete_first(done);
      complete_what_is_there(done);
      return;
    }
    woken_.wait(0);
    woken_.exchange(0);  // not a store: what the waker wrote before must be seen after
  }

  void wake() noexcept override {
    if (woken_.exchange(1) == 0) woken_.notify_one();
  }

  unsigned depth() const override { return static_cast<unsigned>(pending_.size()); }

  std::byte* in_place(FileId file, std::uint64_t offset) override {
    SHOAL_CHECK(file < file_count() && offset < reserve_);
    return mappings_[file].at(offset);
  }

 private:
  struct Pending {
    IoRequest request;
    std::int64_t error = 0;
  };

  void check_reserve(FileId file, std::uint64_t bytes) const {
    if (bytes <= reserve_) return;
    throw Error(
        fmt::format("{}: {} bytes do not fit the {} bytes of address space that were reserved to map it; "
                    "open it with a larger map_reserve_bytes, or use --store-io direct",
                    path(file).string(), bytes, reserve_));
  }

  std::byte* mapped(const IoRequest& request) const { return mappings_[request.file].at(request.offset); }

  void complete_what_is_there(std::vector<IoCompletion>& done) {
    while (queued_ > 0 && is_there(pending_[first_])) complete_first(done);
  }

  bool is_there(const Pending& pending) const {
    const IoRequest& request = pending.request;
    if (pending.error != 0 || request.op == IoRequest::Op::kWrite) return true;
    // In pieces, so that the answer needs no allocation. From the end, where read-ahead comes last.
    unsigned char resident[256];
    constexpr std::size_t kPiece = sizeof resident * kBlockBytes;
    for (std::size_t end = request.length; end > 0;) {
      const std::size_t begin = (end - 1) / kPiece * kPiece;
      const std::size_t pages = (end - begin) / kBlockBytes;
      // An error is no reason to wait: the completion will say what is wrong.
      if (::mincore(mapped(request) + begin, end - begin, resident) != 0) return true;
      for (std::size_t page = 0; page < pages; ++page) {
        if ((resident[page] & 1) == 0) return false;
      }
      end = begin;
    }
    return true;
  }

  void complete_first(std::vector<IoCompletion>& done) {
    const Pending pending = pending_[first_];
    first_ = (first_ + 1) % pending_.size();
    --queued_;
    done.push_back({pending.request.tag, pending.error != 0 ? pending.error : carry_out(pending.request)});
  }

  std::int64_t carry_out(const IoRequest& request) {
    if (request.data != mapped(request)) return transfer(at(request.file).fd(), request);
    if (request.op == IoRequest::Op::kRead) {
      if (::madvise(request.data, request.length, MADV_POPULATE_READ) != 0 && errno != EINVAL) {
        return errno == EFAULT ? -EIO : -errno;  // EFAULT: touching it would have been a SIGBUS
      }
    } else {
      // A shared mapping loses nothing by this: the pages stay in the page cache, dirty, but no longer count as ours.
      if (::madvise(request.data, request.length, MADV_DONTNEED) != 0) return -errno;
    }
    return request.length;
  }

  std::size_t reserve_;
  std::vector<Mapping> mappings_;  // by FileId
  std::vector<Pending> pending_;   // a circle of depth() places
  std::size_t first_ = 0;
  std::size_t queued_ = 0;
  std::atomic<int> woken_ = 0;  // int: what a futex can wait for
};

}  // namespace

std::unique_ptr<IoDevice> make_mapped_device(const DeviceOptions& options) {
  return std::make_unique<MappedDevice>(options);
}

}  // namespace shoal
