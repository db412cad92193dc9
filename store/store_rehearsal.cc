#include "store/store_rehearsal.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "store/error.h"
#include "store/store_engine.h"

namespace shoal {

// What is handed out, and the bytes that would have moved. The engine thread's, but for the sums between rounds.
class StoreRehearsal::Stage {
 public:
  void take(NodeLease lease) {
    ++handed_out;
    leases_.push_back(std::move(lease));
  }
  bool give_one_back() {
    if (leases_.empty()) return false;
    NodeLease lease = std::move(leases_.front());
    leases_.pop_front();
    lease.commit();
    return true;
  }
  std::atomic<std::uint64_t> handed_out = 0;  // steps of the running round

 private:
  std::deque<NodeLease> leases_;
};

// All other ranks. They are at the same part of the round as this one.
class StoreRehearsal::Peers final : public PeerLink {
 public:
  Peers(const Stage& stage, NodeId nodes, std::function<void(NodeId)> fetched)
      : stage_(stage), directory_(nodes), fetched_(std::move(fetched)) {}

  std::span<DirectoryEntry> directory() { return directory_; }
  void plan(std::uint64_t steps, std::vector<PeerRead> reads) { planned_.push_back({steps, std::move(reads)}); }
  void begin_round() {
    const std::scoped_lock lock(mutex_);
    round_ = std::move(planned_.front());
    planned_.pop_front();
    next_ = 0;
  }

  bool fetch(std::uint32_t, NodeId guest, std::uint64_t, std::byte*) override {
    if (fetched_) fetched_(guest);
    return true;
  }
  void serve(const ServeRequest&, std::uint32_t place, Version, std::uint64_t) override {
    ++served;
    released_.push_back(place);
  }
  const std::byte* in_place(NodeId, std::uint64_t, bool) override { return nullptr; }
  void out_of_place(NodeId, const std::byte*) override {}
  bool has_news() override {
    const std::scoped_lock lock(mutex_);
    return !released_.empty() || due();
  }
  void collect(News& news) override {
    const std::scoped_lock lock(mutex_);
    news = {};
    std::swap(news.released, released_);
    for (; due(); ++next_) {
      const NodeId node = round_.reads[next_].node;
      if (directory_[node].version == 0) news.asked.push_back({node, kAnyVersion, next_});
    }
  }
  void verify(NodeId, const std::byte*) const override {}
  void set_wake(std::function<void()>) override {}

  std::atomic<std::uint64_t> served = 0;

 private:
  struct Round {
    std::uint64_t steps = 0;
    std::vector<PeerRead> reads;
  };

  bool due() const {
    if (next_ == round_.reads.size()) return false;
    return static_cast<double>(stage_.handed_out) >= round_.reads[next_].when * static_cast<double>(round_.steps);
  }

  const Stage& stage_;
  std::vector<DirectoryEntry> directory_;
  const std::function<void(NodeId)> fetched_;
  std::vector<std::uint32_t> released_;
  std::deque<Round> planned_;  // the caller's
  std::mutex mutex_;           // guards what follows
  Round round_;
  std::size_t next_ = 0;
};

namespace {

class BlankDevice final : public IoDevice {
 public:
  BlankDevice(unsigned depth, std::function<bool()> when_idle) : depth_(depth), when_idle_(std::move(when_idle)) {}

  std::string_view name() const override { return "rehearsal"; }
  std::vector<ModeReport> modes() const override { return {}; }

  FileId open(const std::filesystem::path& path, OpenMode) override {
    files_.push_back({path, 0});
    return static_cast<FileId>(files_.size() - 1);
  }
  const std::filesystem::path& path(FileId file) const override { return files_[file].path; }
  std::uint64_t size(FileId file) const override { return files_[file].bytes; }
  void resize(FileId file, std::uint64_t bytes) override { files_[file].bytes = bytes; }
  void allocate(FileId, std::uint64_t, std::uint64_t) override {}
  void punch(FileId, std::uint64_t, std::uint64_t) override {}
  void sync(FileId) override {}

  void submit(std::span<const IoRequest> requests) override {
    for (const IoRequest& request : requests) {
      SHOAL_CHECK(request.offset + request.length <= files_[request.file].bytes);
      finished_.push_back({request.tag, request.length});
    }
  }

  void wait(WaitMode mode, std::vector<IoCompletion>& done) override {
    if (finished_.empty() && mode == WaitMode::kBlock && !when_idle_()) {
      woken_.wait(0);
      woken_ = 0;
    }
    done.insert(done.end(), finished_.begin(), finished_.end());
    finished_.clear();
  }

  void wake() noexcept override {
    if (woken_.exchange(1) == 0) woken_.notify_one();
  }

  unsigned depth() const override { return depth_; }
  std::byte* in_place(FileId, std::uint64_t) override { return nullptr; }

 private:
  struct File {
    std::filesystem::path path;
    std::uint64_t bytes;
  };
  unsigned depth_;
  std::function<bool()> when_idle_;
  std::deque<File> files_;  // not a vector: path() hands out references that outlive the next open()
  std::vector<IoCompletion> finished_;
  std::atomic<int> woken_ = 0;
};

}  // namespace

StoreRehearsal::StoreRehearsal(const StoreOptions& given, std::function<void(NodeId)> fetched)
    : stage_(std::make_unique<Stage>()) {
  StoreOptions options = given;
  options.region = {};
  options.seal_public = false;
  if (options.serving_frames > 0) {
    peers_ = std::make_unique<Peers>(*stage_, options.nodes, std::move(fetched));
    options.peers = peers_.get();
    options.listing = peers_->directory();
  }
  options.device_hook = [this, depth = options.queue_depth](std::unique_ptr<IoDevice>) {
    return std::make_unique<BlankDevice>(depth, [this] { return stage_->give_one_back(); });
  };
  engine_ = std::make_unique<StoreEngine>(options, StoreEngine::Start::kRehearse);
}

StoreRehearsal::~StoreRehearsal() = default;

void StoreRehearsal::plan(std::shared_ptr<const AccessPlan> round, std::vector<PeerRead> peers) {
  const std::uint64_t steps = round->size();
  engine_->plan(std::move(round));
  if (peers_) peers_->plan(steps, std::move(peers));
}

RoundReport StoreRehearsal::run() {
  stage_->handed_out = 0;
  if (peers_) peers_->begin_round();
  engine_->begin_round([this](NodeLease lease) { stage_->take(std::move(lease)); }, nullptr);
  return engine_->end_round();
}

std::uint64_t StoreRehearsal::checkpoint() {
  const std::uint64_t before = engine_->report().checkpoint_bytes_written;
  engine_->checkpoint("");
  return engine_->report().checkpoint_bytes_written - before;
}

std::uint64_t StoreRehearsal::records_served() const { return peers_ ? peers_->served.load() : 0; }

StoreReport StoreRehearsal::report() { return engine_->report(); }

}  // namespace shoal
