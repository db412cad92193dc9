// O_DIRECT through one io_uring, with registered files and buffers.
//
// The ring is made disabled, by the thread that opens the store, and enabled by the first submit() or wait(): with
// IORING_SETUP_SINGLE_ISSUER that thread is the ring's owner from then on. Files opened before that are registered by
// whoever opens them, later ones by the owner.
#include <fmt/format.h>
#include <liburing.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <iterator>
#include <thread>
#include <utility>

#include "store/block_file.h"
#include "store/device_choice.h"
#include "store/error.h"
#include "store/types.h"

namespace shoal {

namespace {

// The kernel takes at most 1 GiB per registered buffer. It describes one by its huge pages if it has no others, which
// makes a request a quarter cheaper: so what lies behind the last whole huge page is a buffer of its own. The few
// requests that cross from one buffer into the next go through the ordinary operations.
constexpr std::size_t kRegisteredChunk = std::size_t{512} << 20;
constexpr unsigned kRegisteredFiles = 64;
constexpr unsigned kMaxRetries = 1000;  // of one request; EAGAIN for ever must not become a hang
constexpr std::uint64_t kWakeTag = ~std::uint64_t{0};

// One request for several buffers that are neighbours in the file: a record costs 2.0 us of processor time that way,
// against 2.9, and the device's queue has fewer entries. Linux 6.15 and later; older ones get a request for each
// buffer.
constexpr std::size_t kMostTogether = 8;
constexpr int kReadvFixed = 60;  // liburing 2.3 has no names for them
constexpr int kWritevFixed = 61;
constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};

// What ends a sleep of the owner from another thread. Costs a system call only when the owner really sleeps.
class Doorbell {
 public:
  Doorbell() : fd_(::eventfd(0, EFD_CLOEXEC)) {
    if (fd_ < 0) throw_errno("eventfd", errno);
  }
  ~Doorbell() { ::close(fd_); }
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  void ring() noexcept {
    if (state_.exchange(State::kRung) != State::kAsleep) return;
    const std::uint64_t one = 1;
    // It can only fail when the counter is about to overflow, that is, has long been signalled.
    [[maybe_unused]] const ::ssize_t written = ::write(fd_, &one, sizeof one);
  }

  // False: it was rung, do not sleep.
  bool fall_asleep() {
    State awake = State::kAwake;
    if (state_.compare_exchange_strong(awake, State::kAsleep)) return true;
    state_.exchange(State::kAwake);  // not a store: what the ringer wrote before must be seen after
    return false;
  }
  // True: it was rung meanwhile.
  bool get_up() { return state_.exchange(State::kAwake) == State::kRung; }

  void arm(io_uring_sqe& sqe) {
    io_uring_prep_read(&sqe, fd_, &count_, sizeof count_, 0);
    io_uring_sqe_set_data64(&sqe, kWakeTag);
  }

 private:
  enum class State { kAwake, kAsleep, kRung };
  std::atomic<State> state_ = State::kAwake;
  std::uint64_t count_ = 0;
  int fd_;
};

// Derived, so that liburing's functions take its address.
struct Ring : io_uring {
  Ring(unsigned entries, std::vector<ModeReport>& reports) {
    // Completions are then worked off where the owner waits for them, not by interrupting it. TASKRUN_FLAG tells a poll
    // without a system call whether there is anything to work off.
    const unsigned deferred = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_COOP_TASKRUN |
                              IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED;
    int result = io_uring_queue_init(entries, this, deferred);
    if (result == -EINVAL) {
      reports.push_back({"io_uring completions", "deferred", "interrupting",
                         "the kernel has no IORING_SETUP_DEFER_TASKRUN (it came with Linux 6.1)"});
      result = io_uring_queue_init(entries, this, IORING_SETUP_R_DISABLED);
    }
    if (result == -ENOMEM) {
      throw Error("io_uring_queue_init: " + errno_text(ENOMEM) + "; raise the limit of locked memory (ulimit -l)");
    }
    if (result != 0) throw_errno("io_uring_queue_init", -result);
  }
  ~Ring() { io_uring_queue_exit(this); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
};

class UringDevice final : public FileDevice {
 public:
  explicit UringDevice(const DeviceOptions& options)
      : ring_(options.depth + 1, reports_), buffers_(options.buffers), slots_(options.depth) {
    SHOAL_CHECK(options.depth > 0);
    free_slots_.reserve(slots_.size());
    failed_.reserve(slots_.size());
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) free_slots_.push_back(slot);
    if (io_uring_probe* const probe = io_uring_get_probe_ring(&ring_); probe != nullptr) {
      joins_ =
          io_uring_opcode_supported(probe, kReadvFixed) != 0 && io_uring_opcode_supported(probe, kWritevFixed) != 0;
      io_uring_free_probe(probe);
    }
    register_buffers();
    register_file_table();
  }

  ~UringDevice() override {
    // The kernel must not write into memory that its owner believes to be free. If the owner thread has ended, the
    // kernel has waited for its requests already.
    if (owner_ == std::this_thread::get_id()) drain();
    // Without these the buffers stay pinned and the files open until a kernel worker gets to it. Refused to any thread
    // but the owner, which is harmless.
    io_uring_unregister_buffers(&ring_);
    io_uring_unregister_files(&ring_);
  }

  std::string_view name() const override { return "io_uring"; }

  std::vector<ModeReport> modes() const override {
    std::vector<ModeReport> reports = reports_;
    report_direct_refusals(reports);
    return reports;
  }

  FileId open(const std::filesystem::path& path, OpenMode mode) override {
    const FileId id = add(path, mode, Caching::kDirect);
    const int fd = at(id).fd();
    registered_.push_back(id < registered_limit_ && io_uring_register_files_update(&ring_, id, &fd, 1) == 1);
    return id;
  }

  void submit(std::span<const IoRequest> requests) override {
    start();
    while (!requests.empty()) {
      const std::size_t together = neighbours(requests);
      together > 1 ? push_joined(requests.first(together)) : push_alone(requests.front());
      requests = requests.subspan(together);
    }
    flush();
  }

  void wait(WaitMode mode, std::vector<IoCompletion>& done) override {
    start();
    const std::size_t before = done.size();
    done.insert(done.end(), failed_.begin(), failed_.end());
    failed_.clear();
    reap(done);
    if (mode == WaitMode::kPoll || done.size() > before) {
      flush();
      return;
    }
    bool rung = false;
    while (done.size() == before && !rung) {
      if (!doorbell_.fall_asleep()) {
        flush();
        return;
      }
      const int result = io_uring_submit_and_wait(&ring_, 1);
      rung = doorbell_.get_up();
      if (result < 0 && !passes(result)) throw_errno("io_uring_submit_and_wait", -result);
      reap(done);
    }
    flush();
  }

  void wake() noexcept override { doorbell_.ring(); }
  unsigned depth() const override { return static_cast<unsigned>(slots_.size()); }
  std::byte* in_place(FileId, std::uint64_t) override { return nullptr; }

 private:
  struct Slot {
    IoRequest request;
    std::uint32_t done = 0;  // bytes of it transferred so far
    unsigned retries = 0;
    // The first of a joined request leads the others; the kernel answers for all of them at once.
    std::uint32_t next = kNoSlot;
    std::array<iovec, kMostTogether> buffers{};
  };

  // How many of the first requests can go as one.
  std::size_t neighbours(std::span<const IoRequest> requests) const {
    const IoRequest& first = requests.front();
    const int buffer = registered_buffer(first.data, first.length);
    if (!joins_ || buffer < 0) return 1;
    std::uint64_t end = first.offset + first.length;
    std::size_t count = 1;
    for (; count < std::min(requests.size(), kMostTogether); ++count) {
      const IoRequest& next = requests[count];
      if (next.op != first.op || next.file != first.file || next.offset != end) break;
      if (registered_buffer(next.data, next.length) != buffer) break;
      end += next.length;
    }
    return end <= at(first.file).size() ? count : 1;
  }

  std::uint32_t take_slot(const IoRequest& request) {
    check_request(request, file_count());
    SHOAL_CHECK(!free_slots_.empty());
    const std::uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    slots_[slot].request = request;
    slots_[slot].done = slots_[slot].retries = 0;
    slots_[slot].next = kNoSlot;
    return slot;
  }

  void push_alone(const IoRequest& request) {
    const std::uint32_t slot = take_slot(request);
    if (const std::int64_t error = outside_file(request, at(request.file).size()); error != 0) {
      finish(slot, error, failed_);
    } else {
      push(slot);
    }
  }

  void push_joined(std::span<const IoRequest> requests) {
    const std::uint32_t leader = take_slot(requests.front());
    std::uint32_t last = leader;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (i > 0) last = slots_[last].next = take_slot(requests[i]);
      slots_[leader].buffers[i] = {requests[i].data, requests[i].length};
    }
    const IoRequest& first = requests.front();
    io_uring_sqe& sqe = next_sqe();
    const int operation = first.op == IoRequest::Op::kRead ? kReadvFixed : kWritevFixed;
    const bool fixed_file = registered_[first.file];
    io_uring_prep_rw(operation, &sqe, fixed_file ? static_cast<int>(first.file) : at(first.file).fd(),
                     slots_[leader].buffers.data(), static_cast<unsigned>(requests.size()), first.offset);
    sqe.buf_index = static_cast<std::uint16_t>(registered_buffer(first.data, first.length));
    if (fixed_file) io_uring_sqe_set_flags(&sqe, IOSQE_FIXED_FILE);
    io_uring_sqe_set_data64(&sqe, leader);
  }

  // All or nothing: what did not go through as one goes alone, and says itself what is wrong with it.
  void take_joined(std::uint32_t leader, int result, std::vector<IoCompletion>& done) {
    std::int64_t wanted = 0;
    for (std::uint32_t i = leader; i != kNoSlot; i = slots_[i].next) wanted += slots_[i].request.length;
    for (std::uint32_t i = leader, next = kNoSlot; i != kNoSlot; i = next) {
      next = std::exchange(slots_[i].next, kNoSlot);
      result == wanted ? finish(i, slots_[i].request.length, done) : push(i);
    }
  }

  static bool passes(int result) { return result == -EINTR || result == -EAGAIN || result == -EBUSY; }

  void register_buffers() {
    if (buffers_.empty()) return;
    if (reinterpret_cast<std::uintptr_t>(buffers_.data()) % kHugePageBytes == 0) {
      huge_bytes_ = buffers_.size() / kHugePageBytes * kHugePageBytes;
    }
    std::vector<iovec> chunks;
    for (std::size_t begin = 0, end = 0; begin < buffers_.size(); begin = end) {
      end = std::min(begin + kRegisteredChunk, begin < huge_bytes_ ? huge_bytes_ : buffers_.size());
      chunks.push_back({buffers_.data() + begin, end - begin});
    }
    const int result = io_uring_register_buffers(&ring_, chunks.data(), static_cast<unsigned>(chunks.size()));
    if (result == 0) {
      registered_bytes_ = buffers_.size();
      return;
    }
    std::string reason = "io_uring_register_buffers: " + errno_text(-result);
    if (result == -ENOMEM) {
      reason += fmt::format("; the limit of locked memory (ulimit -l) must be above {} MiB", buffers_.size() >> 20);
    }
    reports_.push_back({"registered buffers", "registered", "not registered", reason});
  }

  void register_file_table() {
    const int result = io_uring_register_files_sparse(&ring_, kRegisteredFiles);
    if (result == 0) {
      registered_limit_ = kRegisteredFiles;
      return;
    }
    reports_.push_back(
        {"registered files", "registered", "not registered", "io_uring_register_files_sparse: " + errno_text(-result)});
  }

  void start() {
    if (owner_ == std::thread::id{}) {
      // What io_uring_enable_rings() does; liburing 2.3 declares but does not export it.
      if (::syscall(SYS_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0) != 0) {
        throw_errno("io_uring_register(IORING_REGISTER_ENABLE_RINGS)", errno);
      }
      owner_ = std::this_thread::get_id();
      doorbell_.arm(next_sqe());
    }
    SHOAL_CHECK(owner_ == std::this_thread::get_id());
  }

  io_uring_sqe& next_sqe() {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    SHOAL_CHECK(sqe != nullptr);  // the ring has a place for every slot and the doorbell
    return *sqe;
  }

  void push(std::uint32_t index) {
    const Slot& slot = slots_[index];
    const IoRequest& request = slot.request;
    io_uring_sqe& sqe = next_sqe();
    std::byte* data = request.data + slot.done;
    const std::uint32_t length = request.length - slot.done;
    const std::uint64_t offset = request.offset + slot.done;
    const bool fixed_file = registered_[request.file];
    const int fd = fixed_file ? static_cast<int>(request.file) : at(request.file).fd();
    const int buffer = registered_buffer(data, length);
    if (request.op == IoRequest::Op::kRead) {
      buffer < 0 ? io_uring_prep_read(&sqe, fd, data, length, offset)
                 : io_uring_prep_read_fixed(&sqe, fd, data, length, offset, buffer);
    } else {
      buffer < 0 ? io_uring_prep_write(&sqe, fd, data, length, offset)
                 : io_uring_prep_write_fixed(&sqe, fd, data, length, offset, buffer);
    }
    if (fixed_file) io_uring_sqe_set_flags(&sqe, IOSQE_FIXED_FILE);
    io_uring_sqe_set_data64(&sqe, index);
  }

  // The registered buffer that holds all of it, or -1.
  int registered_buffer(const std::byte* data, std::size_t length) const {
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(data);
    const std::uintptr_t base = reinterpret_cast<std::uintptr_t>(buffers_.data());
    if (begin < base || begin - base + length > registered_bytes_) return -1;
    const std::size_t first = chunk_at(begin - base);
    return first == chunk_at(begin - base + length - 1) ? static_cast<int>(first) : -1;
  }

  std::size_t chunk_at(std::size_t offset) const {
    if (offset < huge_bytes_) return offset / kRegisteredChunk;
    return (huge_bytes_ + kRegisteredChunk - 1) / kRegisteredChunk + (offset - huge_bytes_) / kRegisteredChunk;
  }

  // Gives the kernel what is in the submission queue. What it does not take now goes with the next wait.
  void flush() {
    while (io_uring_sq_ready(&ring_) > 0) {
      const int result = io_uring_submit(&ring_);
      if (result == -EINTR) continue;
      if (result < 0 && !passes(result)) throw_errno("io_uring_submit", -result);
      if (result <= 0) return;
    }
  }

  // Makes no system call unless the kernel has flagged deferred work.
  void reap(std::vector<IoCompletion>& done) {
    io_uring_cqe* batch[32];
    while (const unsigned count = io_uring_peek_batch_cqe(&ring_, batch, std::size(batch))) {
      for (unsigned i = 0; i < count; ++i) {
        if (batch[i]->user_data == kWakeTag) {
          doorbell_.arm(next_sqe());
        } else {
          take(static_cast<std::uint32_t>(batch[i]->user_data), batch[i]->res, done);
        }
      }
      io_uring_cq_advance(&ring_, count);
    }
  }

  void take(std::uint32_t index, int result, std::vector<IoCompletion>& done) {
    Slot& slot = slots_[index];
    if (slot.next != kNoSlot) {
      take_joined(index, result, done);
    } else if (result == -EINTR || result == -EAGAIN) {
      ++slot.retries < kMaxRetries ? push(index) : finish(index, result, done);
    } else if (result < 0) {
      finish(index, result, done);
    } else if (result == 0) {
      finish(index, slot.request.op == IoRequest::Op::kRead ? -ENODATA : -EIO, done);
    } else {
      slot.done += static_cast<std::uint32_t>(result);
      slot.done < slot.request.length ? push(index) : finish(index, slot.done, done);
    }
  }

  void finish(std::uint32_t index, std::int64_t result, std::vector<IoCompletion>& done) {
    done.push_back({slots_[index].request.tag, result});
    free_slots_.push_back(index);
  }

  void drain() {
    std::vector<IoCompletion> ignored;
    while (free_slots_.size() < slots_.size()) {
      if (const int result = io_uring_submit_and_wait(&ring_, 1); result < 0 && !passes(result)) return;
      reap(ignored);
    }
  }

  std::vector<ModeReport> reports_;
  Doorbell doorbell_;  // before the ring: an armed read points into it until the ring is gone
  Ring ring_;
  std::vector<bool> registered_;  // by FileId
  unsigned registered_limit_ = 0;
  std::span<std::byte> buffers_;
  std::size_t registered_bytes_ = 0;
  std::size_t huge_bytes_ = 0;  // of buffers_: whole huge pages, if the system gave any
  bool joins_ = false;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<IoCompletion> failed_;  // completed without the kernel, by submit()
  std::thread::id owner_;
};

}  // namespace

std::unique_ptr<IoDevice> make_uring_device(const DeviceOptions& options) {
  return std::make_unique<UringDevice>(options);
}

}  // namespace shoal
