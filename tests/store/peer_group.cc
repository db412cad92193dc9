#include "tests/store/peer_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "store/error.h"
#include "store/memory_plan.h"
#include "store/record.h"

namespace shoal::testing {
namespace {

constexpr int kMostTries = 3;

// As another process would: the sanitizer cannot know that what it sees here is thrown away when it was torn.
__attribute__((no_sanitize("thread"), noinline)) void copy_unseen(std::byte* to, const std::byte* from,
                                                                  std::uint64_t bytes) {
  const auto* source = reinterpret_cast<const volatile std::uint64_t*>(from);
  auto* target = reinterpret_cast<volatile std::uint64_t*>(to);
  for (std::uint64_t i = 0; i < bytes / sizeof(std::uint64_t); ++i) target[i] = source[i];
}

}  // namespace

InProcessPeer::InProcessPeer(PeerGroup& group, unsigned rank, const PeerSettings& settings)
    : group_(group), rank_(rank), settings_(settings) {
  thread_ = std::thread([this] { run(); });
}

void InProcessPeer::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

// The engine's side.

bool InProcessPeer::fetch(std::uint32_t frame, NodeId guest, std::uint64_t, std::byte* record) {
  const Reading reading{frame, guest, record, versions_.empty() ? kAnyVersion : versions_[guest]};
  if (settings_.path == ReadPath::kMapped && read_listed(reading)) return true;
  std::uint64_t ticket = 0;
  {
    const std::scoped_lock lock(mutex_);
    ticket = std::uint64_t{rank_} << 32 | ++tickets_;
    readings_[ticket] = reading;
  }
  post({ticket, false, 0, 0, 0});
  return false;
}

const std::byte* InProcessPeer::in_place(NodeId guest, std::uint64_t round, bool) {
  if (settings_.path != ReadPath::kMapped || versions_.empty()) return nullptr;
  if (being_read_in_place_.size() == settings_.most_in_place) return nullptr;
  const NodeId node = group_.names(rank_)[group_.own(rank_) + guest];
  const PeerGroup::Rank& from = group_.ranks_[group_.owner_[node]];
  const DirectoryEntry& entry = from.directory[group_.local_[node]];
  const Version version = entry.version.load();
  const std::uint64_t place = entry.place.load();
  if (version != versions_[guest] || mark_of(place) != round_mark(round)) return nullptr;
  ++in_place_;
  return *being_read_in_place_.insert(from.arena.get() + offset_of(place));
}

void InProcessPeer::out_of_place(NodeId guest, const std::byte* record) {
  const NodeId node = group_.names(rank_)[group_.own(rank_) + guest];
  const PeerGroup::Rank& from = group_.ranks_[group_.owner_[node]];
  const DirectoryEntry& entry = from.directory[group_.local_[node]];
  SHOAL_CHECK(record == from.arena.get() + offset_of(entry.place.load()));  // it has stayed
  being_read_in_place_.extract(record);
}

void InProcessPeer::serve(const ServeRequest& request, std::uint32_t place, Version version, std::uint64_t offset) {
  group_.peer(static_cast<unsigned>(request.ticket >> 32)).post({request.ticket, true, place, version, offset});
}

void InProcessPeer::collect(News& news) {
  news = {};
  const std::scoped_lock lock(mutex_);
  have_news_ = false;
  if (!wrong_.empty()) throw Error(wrong_);
  std::swap(news, news_);
}

void InProcessPeer::verify(NodeId guest, const std::byte* record) const {
  if (settings_.path != ReadPath::kOneSided) return;
  const NodeId node = group_.names(rank_)[group_.own(rank_) + guest];
  const PeerGroup::Rank& from = group_.ranks_[group_.owner_[node]];
  RecordHeader header;
  std::memcpy(&header, record, sizeof(header));
  const RecordId id{Part::kPublic, group_.local_[node], versions_.empty() ? header.version : versions_[guest]};
  const std::string wrong = defect(record, id, from.record_bytes, from.store_id);
  if (!wrong.empty()) throw Error(fmt::format("guest {} came damaged: {}", guest, wrong));
}

void InProcessPeer::set_wake(std::function<void()> wake) {
  const std::scoped_lock lock(wake_mutex_);
  wake_ = std::move(wake);
}

// The communication thread's side.

void InProcessPeer::post(const Event& event) {
  {
    const std::scoped_lock lock(mutex_);
    events_.push_back(event);
  }
  changed_.notify_one();
}

void InProcessPeer::tell(const std::function<void(News&)>& change) {
  {
    const std::scoped_lock lock(mutex_);
    change(news_);
    have_news_ = true;
  }
  const std::scoped_lock lock(wake_mutex_);
  if (wake_) wake_();
}

void InProcessPeer::run() {
  std::mt19937_64 random(settings_.seed * 31 + rank_);
  for (;;) {
    Event event;
    Reading reading;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !events_.empty(); });
      if (stop_) return;
      const auto taken =
          events_.begin() + static_cast<std::ptrdiff_t>(settings_.delays ? random() % events_.size() : 0);
      event = *taken;
      events_.erase(taken);
      reading = readings_.at(event.reading);
    }
    if (settings_.delays && random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    if (event.ready) {
      served(event, reading);
    } else {
      begin(event, reading);
    }
  }
}

bool InProcessPeer::read_listed(const Reading& reading) {
  const NodeId node = group_.names(rank_)[group_.own(rank_) + reading.guest];
  const PeerGroup::Rank& from = group_.ranks_[group_.owner_[node]];
  const NodeId there = group_.local_[node];
  const DirectoryEntry& entry = from.directory[there];
  for (int tries = 0; tries < kMostTries; ++tries) {
    const Version version = entry.version.load(std::memory_order_acquire);
    const std::uint64_t place = entry.place.load(std::memory_order_acquire);
    if (version == 0 || (reading.wanted != kAnyVersion && version != reading.wanted)) return false;
    copy_unseen(reading.record, from.arena.get() + offset_of(place), from.record_bytes);
    if (entry.version.load() == version && entry.place.load() == place) return true;
  }
  return false;
}

void InProcessPeer::begin(const Event& event, const Reading& reading) {
  if (settings_.path == ReadPath::kOneSided && read_listed(reading)) {
    arrived(event.reading, reading.frame);
    return;
  }
  const NodeId node = group_.names(rank_)[group_.own(rank_) + reading.guest];
  ++asks_;
  const ServeRequest request{group_.local_[node], reading.wanted, event.reading};
  group_.peer(group_.owner_[node]).tell([&](News& news) { news.asked.push_back(request); });
}

void InProcessPeer::served(const Event& event, const Reading& reading) {
  const NodeId node = group_.names(rank_)[group_.own(rank_) + reading.guest];
  const PeerGroup::Rank& from = group_.ranks_[group_.owner_[node]];
  // Nobody may touch the record meanwhile, and the sanitizer looks.
  std::memcpy(reading.record, from.arena.get() + event.offset, from.record_bytes);
  group_.peer(group_.owner_[node]).tell([&](News& news) { news.released.push_back(event.place); });
  if (reading.wanted != kAnyVersion && event.version != reading.wanted) {
    const std::scoped_lock lock(mutex_);
    wrong_ = fmt::format("version {} of node {} was served for version {}", event.version, node, reading.wanted);
  }
  arrived(event.reading, reading.frame);
}

void InProcessPeer::arrived(std::uint64_t ticket, std::uint32_t frame) {
  tell([&](News& news) {
    readings_.erase(ticket);
    news.arrived.push_back(frame);
  });
}

// The group.

PeerGroup::PeerGroup(std::vector<unsigned> owner, unsigned ranks, const PeerSettings& settings)
    : owner_(std::move(owner)), local_(owner_.size()), ranks_(ranks), settings_(settings) {
  for (NodeId node = 0; node < owner_.size(); ++node) {
    local_[node] = ranks_[owner_[node]].own++;
    ranks_[owner_[node]].names.push_back(node);
  }
  for (unsigned rank = 0; rank < ranks; ++rank) {
    for (NodeId node = 0; node < owner_.size(); ++node) {
      if (owner_[node] != rank) ranks_[rank].names.push_back(node);
    }
    ranks_[rank].peer = std::make_unique<InProcessPeer>(*this, rank, settings_);
  }
}

PeerGroup::~PeerGroup() {
  for (Rank& rank : ranks_) rank.peer->stop();
}

void PeerGroup::count(unsigned rank, StoreOptions& options) const {
  options.nodes = own(rank);
  options.guests = static_cast<NodeId>(owner_.size() - own(rank));
  options.serving_frames = std::max(options.serving_frames, 1u);
  options.seal_public = settings_.path == ReadPath::kOneSided;
}

void PeerGroup::join(unsigned rank, StoreOptions& options) {
  Rank& joined = ranks_[rank];
  const std::uint64_t bytes = MemoryPlan::for_options(options).arena;
  joined.arena.reset(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, bytes)));
  joined.directory = std::vector<DirectoryEntry>(options.nodes);
  joined.record_bytes = options.layout.record_bytes(Part::kPublic);
  options.region = {joined.arena.get(), bytes};
  options.listing = joined.directory;
  options.peers = joined.peer.get();
}

std::shared_ptr<const AccessPlan> PeerGroup::share(const AccessPlan& round, unsigned rank, Hold hold) const {
  const std::vector<NodeId>& known = names(rank);
  std::vector<NodeId> number(owner_.size());
  for (NodeId i = 0; i < known.size(); ++i) number[known[i]] = i;
  std::vector<bool> held(own(rank), false);
  std::size_t steps = 0;
  std::size_t total = 0;
  for (std::size_t step = 0; step < round.size(); ++step) {
    const bool here = owner_[round.node(step)] == rank;
    steps += here ? 1 : 0;
    total += here ? round.reads(step).size() : 0;
    for (const NodeId node : round.reads(step)) {
      if (!here && owner_[node] == rank && hold == Hold::kWhatOthersRead) held[local_[node]] = true;
    }
  }
  auto plan = std::make_shared<AccessPlan>();
  plan->reserve(steps, total, static_cast<std::size_t>(std::count(held.begin(), held.end(), true)));
  std::vector<NodeId> reads;
  for (std::size_t step = 0; step < round.size(); ++step) {
    if (owner_[round.node(step)] != rank) continue;
    reads.clear();
    for (const NodeId node : round.reads(step)) reads.push_back(number[node]);
    plan->add(round.kind(step), number[round.node(step)], reads);
  }
  for (NodeId node = 0; node < held.size(); ++node) {
    if (held[node]) plan->hold(node);
  }
  return plan;
}

std::vector<unsigned> random_owners(NodeId nodes, unsigned ranks, std::mt19937_64& random) {
  std::vector<unsigned> owner(nodes);
  for (NodeId node = 0; node < nodes; ++node) {
    owner[node] = node < ranks ? node : static_cast<unsigned>(random() % ranks);
  }
  std::shuffle(owner.begin(), owner.end(), random);
  return owner;
}

Watchdog::Watchdog(std::string what, unsigned seconds) {
  thread_ = std::thread([this, what = std::move(what), seconds] {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::seconds(seconds), [this] { return over_; })) return;
    std::fprintf(stderr, "the stores wait for each other: %s\n", what.c_str());
    std::abort();
  });
}

Watchdog::~Watchdog() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

}  // namespace shoal::testing
