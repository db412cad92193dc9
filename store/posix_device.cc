// O_DIRECT pread() and pwrite() on a few threads of its own: for kernels and containers without io_uring.
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

#include "store/block_file.h"
#include "store/device_choice.h"
#include "store/error.h"

namespace shoal {

namespace {

// PLATFORM: the disk is at its best from queue depth 8 on; more threads would only switch more.
constexpr unsigned kMaxThreads = 8;

class PosixDevice final : public FileDevice {
 public:
  explicit PosixDevice(const DeviceOptions& options) : queue_(options.depth) {
    SHOAL_CHECK(options.depth > 0);
    finished_.reserve(options.depth);
    const unsigned threads = std::min(options.depth, kMaxThreads);
    for (unsigned i = 0; i < threads; ++i) {
      workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
  }

  std::string_view name() const override { return "posix"; }

  std::vector<ModeReport> modes() const override {
    std::vector<ModeReport> reports;
    report_direct_refusals(reports);
    return reports;
  }

  FileId open(const std::filesystem::path& path, OpenMode mode) override { return add(path, mode, Caching::kDirect); }

  void submit(std::span<const IoRequest> requests) override {
    {
      const std::lock_guard lock(mutex_);
      for (const IoRequest& request : requests) {
        check_request(request, file_count());
        SHOAL_CHECK(outstanding_ < queue_.size());
        ++outstanding_;
        const BlockFile& file = at(request.file);
        if (const std::int64_t error = outside_file(request, file.size()); error != 0) {
          finished_.push_back({request.tag, error});
          continue;
        }
        queue_[(first_ + queued_) % queue_.size()] = {request, file.fd()};
        ++queued_;
      }
    }
    requests.size() == 1 ? work_there_.notify_one() : work_there_.notify_all();
  }

  void wait(WaitMode mode, std::vector<IoCompletion>& done) override {
    std::unique_lock lock(mutex_);
    if (mode == WaitMode::kBlock) {
      owner_waits_.wait(lock, [this] { return !finished_.empty() || woken_; });
      woken_ = false;
    }
    outstanding_ -= finished_.size();
    done.insert(done.end(), finished_.begin(), finished_.end());
    finished_.clear();
  }

  void wake() noexcept override {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    owner_waits_.notify_one();
  }

  unsigned depth() const override { return static_cast<unsigned>(queue_.size()); }
  std::byte* in_place(FileId, std::uint64_t) override { return nullptr; }

 private:
  struct Job {
    IoRequest request;
    int fd = -1;  // a copy: the files are the owner thread's
  };

  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (work_there_.wait(lock, stop, [this] { return queued_ > 0; })) {
      // What nobody has begun when the device goes away stays undone.
      if (stop.stop_requested()) return;
      const Job job = queue_[first_];
      first_ = (first_ + 1) % queue_.size();
      --queued_;
      lock.unlock();
      const std::int64_t result = transfer(job.fd, job.request);
      lock.lock();
      finished_.push_back({job.request.tag, result});
      owner_waits_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any work_there_;
  std::condition_variable owner_waits_;
  std::vector<Job> queue_;  // a circle of depth() places
  std::size_t first_ = 0;
  std::size_t queued_ = 0;
  std::size_t outstanding_ = 0;
  std::vector<IoCompletion> finished_;
  bool woken_ = false;
  std::vector<std::jthread> workers_;  // last: stopped and joined before anything they use goes away
};

}  // namespace

std::unique_ptr<IoDevice> make_posix_device(const DeviceOptions& options) {
  return std::make_unique<PosixDevice>(options);
}

}  // namespace shoal
