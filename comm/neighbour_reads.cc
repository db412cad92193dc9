#include "comm/neighbour_reads.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "comm/mpi_error.h"
#include "store/error.h"
#include "store/record.h"

namespace shoal {
namespace {

// Reads of a record that its owner keeps moving, before it is asked to hold still.
constexpr unsigned kMostTries = 3;

}  // namespace

void NeighbourFigures::add(const NeighbourFigures& other) {
  shared_bytes += other.shared_bytes;
  one_sided_bytes += other.one_sided_bytes;
  requested_bytes += other.requested_bytes;
  torn += other.torn;
  lag_sum += other.lag_sum;
  lag_most = std::max(lag_most, other.lag_most);
  lag_count += other.lag_count;
}

std::uint64_t NeighbourReads::head_bytes(NodeId nodes) {
  return round_up(FarDirectories::kOffset + nodes * sizeof(DirectoryEntry), kBlockBytes);
}

NeighbourReads::NeighbourReads(Communicator& ranks, ArenaWindow& window, Setup setup)
    : ranks_(ranks),
      window_(window),
      setup_(std::move(setup)),
      record_bytes_(setup_.layout.record_bytes(Part::kPublic)),
      directories_(window, ranks.rank(), setup_.nodes, kMostReadings),
      readings_(kMostReadings),
      requests_(kMostReadings, MPI_REQUEST_NULL),
      indices_(kMostReadings) {
  for (std::uint32_t slot = kMostReadings; slot-- > 0;) free_readings_.push_back(slot);
  announce(0);
  for (DirectoryEntry& entry : directory()) new (&entry) DirectoryEntry;
  ranks_.barrier();
  ranks_.run([&] {
    messages_ = std::make_unique<RankMessages>();
    return true;
  });
  try {
    ranks_.barrier();  // all directories are empty, and all listen
    ranks_.add(this);
  } catch (...) {
    // Its calls are the communication thread's, which may be the one that failed; the process ends.
    static_cast<void>(messages_.release());
    throw;
  }
}

NeighbourReads::~NeighbourReads() {
  ranks_.barrier();  // nobody asks any more
  ranks_.remove(this);
  ranks_.run([&] {
    messages_.reset();
    return true;
  });
}

std::span<DirectoryEntry> NeighbourReads::directory() const {
  return {reinterpret_cast<DirectoryEntry*>(window_.memory().data() + FarDirectories::kOffset),
          setup_.nodes[ranks_.rank()]};
}

std::span<std::byte> NeighbourReads::arena() const { return window_.memory().subspan(arena_offset(ranks_.rank())); }

void NeighbourReads::connect(std::uint64_t store_id) {
  const auto ids = ranks_.gather_everywhere(std::as_bytes(std::span(&store_id, 1)));
  for (const auto& id : ids) {
    store_ids_.emplace_back();
    std::memcpy(&store_ids_.back(), id.data(), sizeof(std::uint64_t));
  }
}

void NeighbourReads::announce(std::uint64_t rounds) {
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(window_.memory().data())).store(rounds, std::memory_order_release);
}

std::uint64_t NeighbourReads::slowest() {
  std::vector<std::uint64_t> done(ranks_.size(), std::numeric_limits<std::uint64_t>::max());
  std::vector<MPI_Request> requests;
  for (unsigned rank = 0; rank < ranks_.size(); ++rank) {
    if (window_.mapped(rank) == nullptr) continue;
    auto* const word = const_cast<std::uint64_t*>(reinterpret_cast<const std::uint64_t*>(window_.mapped(rank)));
    done[rank] = std::atomic_ref(*word).load(std::memory_order_acquire);
  }
  ranks_.run([&, started = false]() mutable {
    for (unsigned rank = 0; !started && rank < ranks_.size(); ++rank) {
      if (rank == ranks_.rank() || window_.mapped(rank) != nullptr) continue;
      requests.push_back(MPI_REQUEST_NULL);
      window_.get(rank, 0, std::as_writable_bytes(std::span(&done[rank], 1)), &requests.back());
    }
    started = true;
    int all = 0;
    check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE), "MPI_Testall");
    return all != 0;
  });
  return *std::min_element(done.begin(), done.end());
}

NeighbourFigures NeighbourReads::take_figures() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(figures_, {});
}

// The engine's side.

bool NeighbourReads::wanted(NodeId guest, Version version) const {
  return versions_.empty() ? version != 0 : version == versions_[guest];
}

const DirectoryEntry* NeighbourReads::mapped_entry(const Guest& guest) const {
  const std::byte* const memory = window_.mapped(guest.owner);
  return memory == nullptr ? nullptr
                           : reinterpret_cast<const DirectoryEntry*>(memory + FarDirectories::kOffset) + guest.node;
}

void NeighbourReads::note_lag(Version version) {
  if (!versions_.empty()) return;
  const std::uint64_t lag = own_version_ > version ? own_version_ - version : 0;
  figures_.lag_sum += lag;
  figures_.lag_most = std::max(figures_.lag_most, lag);
  ++figures_.lag_count;
}

// As a seqlock is read: the entry, the record, and the entry again. An owner holds what its round replaces, but may
// move it to disk and use the frame for something else meanwhile.
bool NeighbourReads::read_mapped(NodeId guest, std::byte* record) {
  const Guest& from = setup_.guests[guest];
  const DirectoryEntry* const entry = mapped_entry(from);
  if (entry == nullptr) return false;
  for (unsigned tries = 0; tries < kMostTries; ++tries) {
    const Version version = entry->version.load(std::memory_order_acquire);
    const std::uint64_t place = entry->place.load(std::memory_order_acquire);
    if (!wanted(guest, version)) return false;
    window_.copy(from.owner, arena_offset(from.owner) + offset_of(place), {record, record_bytes_});
    std::atomic_thread_fence(std::memory_order_acquire);
    const bool whole = entry->version.load(std::memory_order_relaxed) == version &&
                       entry->place.load(std::memory_order_relaxed) == place;
    const std::scoped_lock lock(mutex_);
    if (whole) {
      figures_.shared_bytes += record_bytes_;
      note_lag(version);
      return true;
    }
    ++figures_.torn;
  }
  return false;
}

const std::byte* NeighbourReads::in_place(NodeId guest, std::uint64_t round, bool first) {
  const Guest& from = setup_.guests[guest];
  const DirectoryEntry* const entry = mapped_entry(from);
  if (entry == nullptr || versions_.empty()) return nullptr;
  // An entry that has changed in between has another version or another mark: nothing that stays is listed elsewhere.
  const Version version = entry->version.load(std::memory_order_acquire);
  const std::uint64_t place = entry->place.load(std::memory_order_acquire);
  if (!wanted(guest, version) || mark_of(place) != round_mark(round)) return nullptr;
  const std::byte* const record =
      window_.begin_in_place(from.owner, arena_offset(from.owner) + offset_of(place), record_bytes_);
  if (record != nullptr && first) {
    const std::scoped_lock lock(mutex_);
    figures_.shared_bytes += record_bytes_;
  }
  return record;
}

void NeighbourReads::out_of_place(NodeId guest, const std::byte* record) {
  window_.end_in_place(setup_.guests[guest].owner, record, record_bytes_);
}

bool NeighbourReads::fetch(std::uint32_t frame, NodeId guest, std::uint64_t round, std::byte* record) {
  if (read_mapped(guest, record)) return true;
  Reading reading;
  reading.frame = frame;
  reading.guest = guest;
  reading.round = round;
  reading.record = record;
  {
    const std::scoped_lock lock(mutex_);
    asked_.push_back(reading);
  }
  ranks_.kick();
  return false;
}

void NeighbourReads::serve(const ServeRequest& request, std::uint32_t place, Version version, std::uint64_t offset) {
  const auto rank = static_cast<unsigned>(request.ticket >> 32);
  const RankMessage message{RankMessage::Kind::kReady,   request.node, version,
                            request.ticket & 0xffffffff, offset,       place};
  {
    const std::scoped_lock lock(mutex_);
    answers_.push_back({rank, message});
  }
  ranks_.kick();
}

bool NeighbourReads::has_news() { return have_news_.load(); }

void NeighbourReads::collect(News& news) {
  news.arrived.clear();
  news.asked.clear();
  news.released.clear();
  const std::scoped_lock lock(mutex_);
  have_news_ = false;
  if (error_) std::rethrow_exception(error_);
  std::swap(news, news_);
}

void NeighbourReads::verify(NodeId guest, const std::byte* record) const {
  const Guest& from = setup_.guests[guest];
  if (window_.mapped(from.owner) != nullptr) return;  // it came from there, and need not be sealed
  RecordHeader header;
  std::memcpy(&header, record, sizeof(header));
  const Version version = versions_.empty() ? header.version : versions_[guest];
  const std::string wrong = defect(record, {Part::kPublic, from.node, version}, record_bytes_, store_ids_[from.owner]);
  if (wrong.empty()) return;
  throw Error(
      fmt::format("the record of node {} of rank {} came damaged over the network: {}. Check both hosts' memory and "
                  "network, then go on with --resume",
                  from.node, from.owner, wrong));
}

void NeighbourReads::set_wake(std::function<void()> wake) {
  const std::scoped_lock lock(wake_mutex_);
  wake_ = std::move(wake);
}

// The communication thread's side.

bool NeighbourReads::poll() {
  bool moved = false;
  try {
    moved = move();
  } catch (...) {
    const std::scoped_lock lock(mutex_);
    if (!error_) error_ = std::current_exception();
    have_news_ = urgent_ = true;
  }
  if (have_news_ && (urgent_ || active_ + waiting_.size() <= kLeftWhenTold || told_long_ago())) tell();
  return moved;
}

bool NeighbourReads::told_long_ago() const { return std::chrono::steady_clock::now() - told_ > kToldAfter; }

void NeighbourReads::tell() {
  urgent_ = false;
  told_ = std::chrono::steady_clock::now();
  const std::scoped_lock lock(wake_mutex_);
  if (wake_) wake_();
}

bool NeighbourReads::move() {
  bool moved = false;
  {
    const std::scoped_lock lock(mutex_);
    moved = !asked_.empty() || !answers_.empty();
    waiting_.insert(waiting_.end(), asked_.begin(), asked_.end());
    asked_.clear();
    for (const Answer& answer : answers_) messages_->post(answer.rank, answer.message);
    answers_.clear();
  }
  while (!waiting_.empty() && !free_readings_.empty()) {
    const std::uint32_t slot = free_readings_.back();
    free_readings_.pop_back();
    readings_[slot] = waiting_.front();
    waiting_.pop_front();
    ++active_;
    begin(slot);
    follow(slot);
  }
  int count = 0;
  check(MPI_Testsome(kMostReadings, requests_.data(), &count, indices_.data(), MPI_STATUSES_IGNORE), "MPI_Testsome");
  for (int i = 0; count != MPI_UNDEFINED && i < count; ++i) {
    const auto slot = static_cast<std::uint32_t>(indices_[static_cast<std::size_t>(i)]);
    got(slot);
    follow(slot);
    moved = true;
  }
  moved |= messages_->poll([this](unsigned from, const RankMessage& message) { hear(from, message); });
  return moved;
}

void NeighbourReads::begin(std::uint32_t slot) {
  Reading& reading = readings_[slot];
  const Guest& from = setup_.guests[reading.guest];
  if (window_.mapped(from.owner) != nullptr) {
    // The engine has looked into the directory already.
    ask(slot);
    return;
  }
  const ListedRecord* const entry = directories_.find(from.owner, from.node, reading.round);
  if (entry != nullptr && stays(reading, *entry)) {
    reading.entry = *entry;
    listed(slot);
  } else {
    reading.stage = Reading::Stage::kEntry;
    directories_.get_piece(from.owner, from.node, slot, &requests_[slot]);
  }
}

// To the end of the round, and with it beyond the time that this rank reads it.
bool NeighbourReads::stays(const Reading& reading, const ListedRecord& entry) const {
  return !versions_.empty() && wanted(reading.guest, entry.version) &&
         mark_of(entry.place) == round_mark(reading.round);
}

// The entry is there.
void NeighbourReads::listed(std::uint32_t slot) {
  Reading& reading = readings_[slot];
  reading.version = reading.entry.version;
  if (wanted(reading.guest, reading.version)) {
    reading.stage = Reading::Stage::kRecord;
    get_record(slot, offset_of(reading.entry.place));
  } else {
    ask(slot);
  }
}

void NeighbourReads::get_record(std::uint32_t slot, std::uint64_t offset) {
  Reading& reading = readings_[slot];
  reading.offset = arena_offset(setup_.guests[reading.guest].owner) + offset;
  reading.bytes = 0;
  get_piece(slot);
}

void NeighbourReads::get_piece(std::uint32_t slot) {
  Reading& reading = readings_[slot];
  const std::uint64_t bytes = std::min(setup_.most_bytes, record_bytes_ - reading.bytes);
  window_.get(setup_.guests[reading.guest].owner, reading.offset + reading.bytes,
              {reading.record + reading.bytes, bytes}, &requests_[slot]);
  reading.bytes += bytes;
}

void NeighbourReads::ask(std::uint32_t slot) {
  Reading& reading = readings_[slot];
  reading.stage = Reading::Stage::kAsked;
  const Guest& from = setup_.guests[reading.guest];
  const Version version = versions_.empty() ? kAnyVersion : versions_[reading.guest];
  messages_->post(from.owner, {RankMessage::Kind::kAsk, from.node, version, slot, 0, 0});
}

// Where memory is shared, a get is done as soon as it is started: one record after the other is read then, and told of.
void NeighbourReads::follow(std::uint32_t slot) {
  while (requests_[slot] != MPI_REQUEST_NULL) {
    int done = 0;
    check(MPI_Test(&requests_[slot], &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) return;
    got(slot);
  }
}

void NeighbourReads::got(std::uint32_t slot) {
  Reading& reading = readings_[slot];
  const Guest& from = setup_.guests[reading.guest];
  switch (reading.stage) {
    case Reading::Stage::kEntry:
      reading.entry = directories_.take_piece(from.owner, from.node, reading.round, slot);
      listed(slot);
      break;
    case Reading::Stage::kRecord:
      if (reading.bytes < record_bytes_) {
        get_piece(slot);
      } else if (stays(reading, reading.entry)) {
        arrived(slot);
      } else {
        std::atomic_thread_fence(std::memory_order_acquire);
        reading.stage = Reading::Stage::kEntryAgain;
        directories_.get(from.owner, from.node, reading.again, &requests_[slot]);
      }
      break;
    case Reading::Stage::kEntryAgain:
      if (reading.entry == reading.again) {
        arrived(slot);
        break;
      }
      {
        const std::scoped_lock lock(mutex_);
        ++figures_.torn;
      }
      if (++reading.tries < kMostTries) {
        begin(slot);
      } else {
        ask(slot);
      }
      break;
    case Reading::Stage::kServed:
      if (reading.bytes < record_bytes_) {
        get_piece(slot);
      } else {
        release(reading);
        arrived(slot);
      }
      break;
    case Reading::Stage::kAsked: SHOAL_CHECK(false);
  }
}

void NeighbourReads::served(const RankMessage& message) {
  const auto slot = static_cast<std::uint32_t>(message.ticket);
  Reading& reading = readings_[slot];
  SHOAL_CHECK(reading.stage == Reading::Stage::kAsked);
  const Guest& from = setup_.guests[reading.guest];
  if (!wanted(reading.guest, message.version)) {
    throw Error(fmt::format("rank {} serves version {} of its node {}, which was not asked for", from.owner,
                            message.version, from.node));
  }
  reading.stage = Reading::Stage::kServed;
  reading.version = message.version;
  reading.place = message.place;
  if (window_.mapped(from.owner) != nullptr) {
    window_.copy(from.owner, arena_offset(from.owner) + message.offset, {reading.record, record_bytes_});
    release(reading);
    arrived(slot);
  } else {
    get_record(slot, message.offset);
    follow(slot);
  }
}

void NeighbourReads::release(const Reading& reading) {
  const Guest& from = setup_.guests[reading.guest];
  messages_->post(from.owner, {RankMessage::Kind::kRelease, from.node, 0, 0, 0, reading.place});
}

void NeighbourReads::arrived(std::uint32_t slot) {
  const Reading& reading = readings_[slot];
  --active_;
  free_readings_.push_back(slot);
  std::size_t left = active_ + waiting_.size();
  {
    const std::scoped_lock lock(mutex_);
    const bool asked = reading.stage == Reading::Stage::kServed;
    (asked ? figures_.requested_bytes : figures_.one_sided_bytes) += record_bytes_;
    note_lag(reading.version);
    news_.arrived.push_back(reading.frame);
    have_news_ = true;
    left += asked_.size();
  }
  if (left == kLeftWhenTold || told_long_ago()) tell();
}

void NeighbourReads::hear(unsigned from, const RankMessage& message) {
  if (message.kind == RankMessage::Kind::kReady) return served(message);
  const std::scoped_lock lock(mutex_);
  if (message.kind == RankMessage::Kind::kAsk) {
    news_.asked.push_back({message.node, message.version, std::uint64_t{from} << 32 | message.ticket});
  } else {
    news_.released.push_back(static_cast<std::uint32_t>(message.place));
  }
  have_news_ = urgent_ = true;
}

}  // namespace shoal
