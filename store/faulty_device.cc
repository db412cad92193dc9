#include "store/faulty_device.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>

#include "store/block_file.h"
#include "store/error.h"
#include "store/types.h"

namespace shoal {

void FaultScript::fail(std::uint64_t nth, Fault fault, std::optional<DeviceOperation> only) {
  SHOAL_CHECK(nth > 0);
  const std::lock_guard lock(mutex_);
  planned_.push_back({nth, fault, only});
}

void FaultScript::delay_completions(std::uint64_t seed) {
  const std::lock_guard lock(mutex_);
  delay_seed_ = seed;
}

void FaultScript::keep_undo() {
  const std::lock_guard lock(mutex_);
  keep_undo_ = true;
}

void FaultScript::cut_power(std::optional<std::uint64_t> survivors_seed) {
  const std::lock_guard lock(mutex_);
  SHOAL_CHECK(keep_undo_);
  power_cut_ = true;
  survivors_seed_ = survivors_seed;
}

std::uint64_t FaultScript::operations() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

std::uint64_t FaultScript::operations(DeviceOperation kind) const {
  const std::lock_guard lock(mutex_);
  return counts_[static_cast<std::size_t>(kind)];
}

std::uint64_t FaultScript::injected() const {
  const std::lock_guard lock(mutex_);
  return injected_;
}

std::optional<Fault> FaultScript::next(DeviceOperation operation) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t nth = ++count_;
  const std::uint64_t nth_of_kind = ++counts_[static_cast<std::size_t>(operation)];
  if (power_cut_) return Fault::kIoError;
  for (const Planned& planned : planned_) {
    if (planned.only ? *planned.only == operation && planned.nth == nth_of_kind : planned.nth == nth) {
      ++injected_;
      return planned.fault;
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> FaultScript::delay_seed() const {
  const std::lock_guard lock(mutex_);
  return delay_seed_;
}

bool FaultScript::keeps_undo() const {
  const std::lock_guard lock(mutex_);
  return keep_undo_;
}

bool FaultScript::power_is_cut() const {
  const std::lock_guard lock(mutex_);
  return power_cut_;
}

std::optional<std::uint64_t> FaultScript::survivors_seed() const {
  const std::lock_guard lock(mutex_);
  return survivors_seed_;
}

class FaultyDevice final : public IoDevice {
 public:
  FaultyDevice(std::unique_ptr<IoDevice> inner, std::shared_ptr<FaultScript> script)
      : inner_(std::move(inner)), script_(std::move(script)), flights_(inner_->depth()) {
    SHOAL_CHECK(inner_->depth() > 1);
    for (std::size_t flight = 0; flight < flights_.size(); ++flight) free_flights_.push_back(flight);
  }

  ~FaultyDevice() override {
    if (script_->power_is_cut()) undo_what_was_not_synced();
  }

  std::string_view name() const override { return "faulty"; }
  std::vector<ModeReport> modes() const override { return inner_->modes(); }

  FileId open(const std::filesystem::path& path, OpenMode mode) override { return inner_->open(path, mode); }
  const std::filesystem::path& path(FileId file) const override { return inner_->path(file); }
  std::uint64_t size(FileId file) const override { return inner_->size(file); }

  void resize(FileId file, std::uint64_t bytes) override {
    const std::uint64_t old = size(file);
    may_fail(DeviceOperation::kResize, "cannot resize", file, std::min(old, bytes),
             std::max(old, bytes) - std::min(old, bytes));
    if (script_->keeps_undo()) {
      if (bytes < old) remember(file, bytes, old - bytes);
      undo_.push_back({file, 0, {}, old, 0});
    }
    inner_->resize(file, bytes);
  }

  void allocate(FileId file, std::uint64_t offset, std::uint64_t length) override {
    may_fail(DeviceOperation::kAllocate, "cannot allocate blocks of", file, offset, length);
    inner_->allocate(file, offset, length);
  }

  void punch(FileId file, std::uint64_t offset, std::uint64_t length) override {
    may_fail(DeviceOperation::kPunch, "cannot punch a hole into", file, offset, length);
    if (script_->keeps_undo()) remember(file, offset, length);
    inner_->punch(file, offset, length);
  }

  void sync(FileId file) override {
    may_fail(DeviceOperation::kSync, "cannot sync", file, 0, size(file));
    inner_->sync(file);
    // Nobody has been told yet that these are done, so the sync promises nothing about them.
    const auto in_flight = [this](const Undo& undo) {
      return std::any_of(flights_.begin(), flights_.end(), [&](const Flight& f) { return f.write == undo.write; });
    };
    std::erase_if(undo_, [&](const Undo& undo) { return undo.file == file && (undo.write == 0 || !in_flight(undo)); });
  }

  void submit(std::span<const IoRequest> requests) override {
    for (const IoRequest& request : requests) {
      SHOAL_CHECK(free_flights_.size() > 1);  // the last one is ours
      const bool reads = request.op == IoRequest::Op::kRead;
      const std::optional<Fault> fault = script_->next(reads ? DeviceOperation::kRead : DeviceOperation::kWrite);
      const std::size_t flight = take_flight(request.tag);
      std::uint32_t length = request.length;
      if (fault == Fault::kShort || (fault == Fault::kTorn && !reads)) {
        length = static_cast<std::uint32_t>(length / 2 / kBlockBytes * kBlockBytes);
      } else if (fault) {
        length = 0;
      }
      if (fault && fault != Fault::kShort) flights_[flight].result = fault == Fault::kNoSpace ? -ENOSPC : -EIO;
      if (length == 0) {
        hold(flight, 0);
        continue;
      }
      IoRequest forwarded = request;
      forwarded.length = length;
      forwarded.tag = flight;
      if (!reads && script_->keeps_undo() && request.data != inner_->in_place(request.file, request.offset)) {
        flights_[flight].write = ++writes_;
        remember(request.file, request.offset, length, writes_);
      }
      inner_->submit({&forwarded, 1});
    }
  }

  void wait(WaitMode mode, std::vector<IoCompletion>& done) override {
    const std::size_t before = done.size();
    bool woken = false;
    do {
      if (mode == WaitMode::kBlock) woken = woken_.exchange(false);
      const bool blocks = mode == WaitMode::kBlock && !woken;
      collect(blocks && held_.empty() ? WaitMode::kBlock : WaitMode::kPoll);
      release(done);
      if (blocks && done.size() == before && !held_.empty()) release_last(done);
      if (!blocks) return;
    } while (done.size() == before);
  }

  void wake() noexcept override {
    // Remembered here too, because our own waits, too, may use up the inner device's wake.
    woken_.store(true);
    inner_->wake();
  }

  unsigned depth() const override { return inner_->depth() - 1; }
  std::byte* in_place(FileId file, std::uint64_t offset) override { return inner_->in_place(file, offset); }

 private:
  struct Flight {
    std::uint64_t tag = 0;
    std::optional<std::int64_t> result;  // what to say instead of the truth
    std::uint64_t write = 0;             // which of the writes that can be undone; 0 for none
    unsigned waits = 0;                  // to be held back for
  };

  // How to take one operation back: the bytes that were at the offset, or, without bytes, the size of the file.
  struct Undo {
    FileId file = 0;
    std::uint64_t offset = 0;
    std::vector<std::byte> bytes;
    std::uint64_t size = 0;
    std::uint64_t write = 0;
  };

  struct FreeDeleter {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Blocks = std::unique_ptr<std::byte, FreeDeleter>;

  static Blocks blocks_of(std::size_t bytes) {
    return Blocks(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, bytes)));
  }

  void may_fail(DeviceOperation operation, std::string_view doing, FileId file, std::uint64_t offset,
                std::uint64_t length) {
    const std::optional<Fault> fault = script_->next(operation);
    if (fault) throw_io_error(doing, path(file), offset, length, fault == Fault::kNoSpace ? ENOSPC : EIO);
  }

  std::size_t take_flight(std::uint64_t tag) {
    const std::size_t flight = free_flights_.back();
    free_flights_.pop_back();
    flights_[flight] = {.tag = tag, .result = std::nullopt, .write = 0, .waits = 0};
    return flight;
  }

  // The truth about a flight has come; when to tell it is another matter.
  void hold(std::size_t flight, std::int64_t result) {
    if (!flights_[flight].result) flights_[flight].result = result;
    if (const auto seed = script_->delay_seed()) {
      if (!random_) random_.emplace(*seed);
      flights_[flight].waits = static_cast<unsigned>((*random_)() % 4);
    }
    held_.push_back(flight);
  }

  void collect(WaitMode mode) {
    collected_.clear();
    inner_->wait(mode, collected_);
    for (const IoCompletion& completion : collected_) {
      if (completion.tag == kOwnTag) {
        own_result_ = completion.result;
      } else {
        hold(completion.tag, completion.result);
      }
    }
  }

  void release(std::vector<IoCompletion>& done) {
    if (random_) std::shuffle(held_.begin(), held_.end(), *random_);
    std::erase_if(held_, [&](std::size_t flight) {
      if (flights_[flight].waits > 0) {
        --flights_[flight].waits;
        return false;
      }
      tell(flight, done);
      return true;
    });
  }

  void release_last(std::vector<IoCompletion>& done) {
    tell(held_.back(), done);
    held_.pop_back();
  }

  void tell(std::size_t flight, std::vector<IoCompletion>& done) {
    done.push_back({flights_[flight].tag, *flights_[flight].result});
    flights_[flight].write = 0;
    free_flights_.push_back(flight);
  }

  // Blocking, with the place that depth() holds back.
  void transfer_now(IoRequest::Op op, FileId file, std::uint64_t offset, std::byte* data, std::uint32_t length) {
    const IoRequest request{.op = op, .file = file, .offset = offset, .data = data, .length = length, .tag = kOwnTag};
    own_result_.reset();
    inner_->submit({&request, 1});
    while (!own_result_) collect(WaitMode::kBlock);
    if (*own_result_ != length) {
      throw_io_error("cannot keep what can be undone of", path(file), offset, length, static_cast<int>(-*own_result_));
    }
  }

  void remember(FileId file, std::uint64_t offset, std::uint64_t length, std::uint64_t write = 0) {
    const std::uint64_t whole_blocks = size(file) / kBlockBytes * kBlockBytes;
    const std::uint64_t end = std::min(offset + length, whole_blocks);
    while (offset < end) {
      const auto piece = static_cast<std::uint32_t>(std::min<std::uint64_t>(end - offset, 1 << 20));
      const Blocks before = blocks_of(piece);
      transfer_now(IoRequest::Op::kRead, file, offset, before.get(), piece);
      undo_.push_back({file, offset, {before.get(), before.get() + piece}, 0, write});
      offset += piece;
    }
  }

  void undo_what_was_not_synced() {
    // All but the flights that wait to be told about.
    while (free_flights_.size() + held_.size() < flights_.size()) collect(WaitMode::kBlock);
    std::optional<std::mt19937_64> coin;
    if (const auto seed = script_->survivors_seed()) coin.emplace(*seed);
    const Blocks block = blocks_of(kBlockBytes);
    // Backwards, so that what is put back last is what was there first.
    for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) {
      if (undo->bytes.empty()) inner_->resize(undo->file, undo->size);
      for (std::size_t at = 0; at < undo->bytes.size(); at += kBlockBytes) {
        if (undo->offset + at + kBlockBytes > size(undo->file) || (coin && (*coin)() % 2 == 0)) continue;
        std::memcpy(block.get(), undo->bytes.data() + at, kBlockBytes);
        transfer_now(IoRequest::Op::kWrite, undo->file, undo->offset + at, block.get(), kBlockBytes);
      }
    }
  }

  static constexpr std::uint64_t kOwnTag = ~std::uint64_t{0};

  std::unique_ptr<IoDevice> inner_;
  std::shared_ptr<FaultScript> script_;
  std::vector<Flight> flights_;
  std::vector<std::size_t> free_flights_;
  std::vector<std::size_t> held_;  // completed below, not told yet
  std::vector<IoCompletion> collected_;
  std::optional<std::int64_t> own_result_;
  std::optional<std::mt19937_64> random_;
  std::vector<Undo> undo_;
  std::uint64_t writes_ = 0;
  std::atomic<bool> woken_ = false;
};

std::unique_ptr<IoDevice> make_faulty_device(std::unique_ptr<IoDevice> inner, std::shared_ptr<FaultScript> script) {
  return std::make_unique<FaultyDevice>(std::move(inner), std::move(script));
}

}  // namespace shoal
