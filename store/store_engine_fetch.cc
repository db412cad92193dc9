// The life of a node-step: gather its records, hand it over, take it back.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "store/error.h"
#include "store/record.h"
#include "store/store_engine.h"

namespace shoal {

// Opens steps in plan order for as long as flights, bytes and frames allow. A step that cannot have a frame yet keeps
// what it has and goes on later; earlier steps never wait for later ones, so the first one always gets through.
void StoreEngine::pump() {
  if (!running_) return;
  const UseIndex& round = *rounds_.front().index;
  while (cursor_ < round.steps()) {
    if (opening_ == nullptr) {
      if (free_flights_.empty() || (flying_ > 0 && flying_bytes_ >= memory_.prefetch)) break;
      opening_ = free_flights_.back();
      free_flights_.pop_back();
      ++flying_;
      Flight& flight = *opening_;
      flight.step = cursor_;
      flight.kind = round.plan().kind(cursor_);
      flight.node = round.plan().node(cursor_);
      flight.version = uses_private(flight.kind) ? table_->version(flight.node) : 0;
      flight.next_version = flight.version + 1;
      flight.own = flight.private_frame = flight.next = kNoFrame;
      flight.reads.clear();
      flight.read_payloads.clear();
      flight.counts.clear();
      flight.gathered = flight.loading = 0;
      flight.bytes = 0;
      flight.committed = false;
    }
    if (!gather(*opening_)) break;
    Flight& flight = *std::exchange(opening_, nullptr);
    ++cursor_;
    if (flight.loading == 0) deliver(flight);
  }
  for (const Part part : kParts) {
    if (pressed_[index(part)]) make_room(part);
  }
  if (cursor_ == round.steps()) read_for_next_round();
}

bool StoreEngine::gather(Flight& flight) {
  const std::size_t reads = rounds_.front().index->plan().reads(flight.step).size();
  for (; flight.gathered < reads + 3; ++flight.gathered) {
    bool got = true;
    switch (flight.gathered) {
      case 0: got = !reads_own(flight.kind) || gather_own(flight); break;
      case 1: got = !uses_private(flight.kind) || gather_private(flight); break;
      case 2: got = !writes(flight.kind) || gather_next(flight); break;
      default: got = gather_read(flight, flight.gathered - 3);
    }
    if (!got) return false;
  }
  return true;
}

bool StoreEngine::gather_own(Flight& flight) {
  flight.own = use(flight, Part::kPublic, flight.node, false);
  if (flight.own == kNoFrame) return false;
  seen_step_[flight.node] = flight.step;
  cache_->set_next_use(flight.own, next_public_use(flight.node, flight.step));
  return true;
}

bool StoreEngine::gather_private(Flight& flight) {
  if (flight.kind == StepKind::kCreate && cache_->current(Part::kPrivate, flight.node) == kNoFrame) {
    // Nothing is read, whatever the node had before.
    flight.private_frame = bind(flight, Part::kPrivate, flight.node, false);
    if (flight.private_frame != kNoFrame) {
      if (in_place_) {
        const Location where = table_->location(Part::kPrivate, flight.node);
        const bool reuse = where.is_slab() && !slab(Part::kPrivate).retained(where.slot());
        place_in_slot(flight.private_frame, reuse ? where.slot() : slab(Part::kPrivate).allocate());
      }
      cache_->became_ready(flight.private_frame);
    }
  } else {
    flight.private_frame = use(flight, Part::kPrivate, flight.node, writes(flight.kind));
  }
  if (flight.private_frame == kNoFrame) return false;
  cache_->set_next_use(flight.private_frame, later_private_use(flight.node));
  return true;
}

bool StoreEngine::gather_next(Flight& flight) {
  flight.next = bind(flight, Part::kPublic, flight.node, true);
  if (flight.next == kNoFrame) return false;
  if (in_place_) place_in_slot(flight.next, slab(Part::kPublic).allocate());
  cache_->became_ready(flight.next);
  cache_->set_next_use(flight.next, later_public_use(flight.node));
  return true;
}

bool StoreEngine::gather_read(Flight& flight, std::size_t k) {
  const NodeId node = rounds_.front().index->plan().reads(flight.step)[k];
  if (!is_guest(node) || !read_in_place(flight, node)) {
    const FrameId id = use(flight, Part::kPublic, node, false);
    if (id == kNoFrame) return false;
    flight.reads.push_back(id);
    flight.read_payloads.push_back(nullptr);  // deliver() knows
    cache_->set_next_use(id, next_public_use(node, flight.step));
  }
  flight.counts.push_back(seen_step_[node] != flight.step);
  seen_step_[node] = flight.step;
  return true;
}

// A pinned frame with the record in it or on its way; kNoFrame when there is no room yet.
FrameId StoreEngine::use(Flight& flight, Part part, NodeId node, bool to_change) {
  FrameId id = flight.replaced ? cache_->next(node) : cache_->current(part, node);
  if (id == kNoFrame && is_guest(node)) {
    id = use_guest(flight, node);
    if (id == kNoFrame) return kNoFrame;
  } else if (id == kNoFrame) {
    const Location where = flight.replaced ? table_->pending(node) : table_->location(part, node);
    if (where.is_nowhere()) {
      throw Error(fmt::format("step {} uses node {}, which has never been created", flight.step, node),
                  ExitCode::kUsage);
    }
    id = bind(flight, part, node, flight.replaced);
    if (id == kNoFrame) return kNoFrame;
    if (!flight.serving) {
      ++round_report_.misses[index(part)];
      if (where.is_zero()) ++round_report_.zero_misses;
      if (where.is_cold()) ++round_report_.cold_misses;
    }
    load(id);
  } else {
    Cached& entry = (*cache_)[id];
    if (!flight.serving && !may_pin(id)) return kNoFrame;
    cache_->pin(id);
    if (!flight.serving && !is_guest(node)) count_use(entry);
    if (entry.drop) {
      entry.drop = false;
      --dropping_[index(part)];
    }
  }
  const Cached& entry = (*cache_)[id];
  // A record being written may be read meanwhile; to be changed, it must be out first.
  if (entry.phase == Phase::kLoading || (entry.phase == Phase::kWriting && (to_change || in_place_))) await(flight, id);
  return id;
}

// Of a record that has a frame. Its first use after it was read ahead is the one that it was read for.
void StoreEngine::count_use(Cached& entry) {
  if (!std::exchange(entry.ahead, false)) {
    ++round_report_.hits[index(entry.part)];
    return;
  }
  ++round_report_.misses[index(entry.part)];
  if (location_of(entry).is_cold()) ++round_report_.cold_misses;
}

void StoreEngine::await(Flight& flight, FrameId id) {
  const auto waiter = static_cast<std::uint32_t>(flight.index * (options_.max_reads_per_step + 3) + flight.gathered);
  next_waiter_[waiter] = std::exchange((*cache_)[id].first_waiter, waiter);
  ++flight.loading;
}

FrameId StoreEngine::bind(Flight& flight, Part part, NodeId node, bool next) {
  const std::uint32_t kept = flight.serving ? 0 : kept_for_serving(part);
  if (arena_->free_frames(part) <= kept && !frames_come_back(flight, part)) make_room(part);
  if (arena_->free_frames(part) <= kept) return kNoFrame;
  const FrameId id = cache_->bind(part, node, next);
  if (!flight.serving) {
    flight.bytes += record_bytes(part);
    flying_bytes_ += record_bytes(part);
  }
  return id;
}

// Where everything fits, one step at a time finds a frame for all it needs (UseIndex::extra_versions). Steps that are
// ahead of it may need more, above all when other ranks are late: they keep the guests that have come and the old
// versions that they read. They give them back when they are done, and to wait for that moves no record to disk.
bool StoreEngine::frames_come_back(const Flight& flight, Part part) const {
  return !flight.serving && !pressed_[index(part)] && flying_ > 1;
}

// Brings the record into its frame from wherever its durable copy is.
void StoreEngine::load(FrameId id) {
  Cached& entry = (*cache_)[id];
  const Location where = location_of(entry);
  // Of a node that has acted, the private record is the new one already.
  const bool pending = entry.next || (entry.part == Part::kPrivate && acted_[entry.node] != 0);
  entry.version = pending ? table_->pending_version(entry.node) : table_->version(entry.node);
  if (where.is_slab()) {
    place_in_slot(id, where.slot());
    slab_io_->start(IoRequest::Op::kRead, id, where.slot());
    return;
  }
  if (in_place_) {
    place_in_slot(id, slab(entry.part).allocate());
    entry.dirty = true;
  }
  if (where.is_zero()) {
    if (!rehearsal_) std::memset(entry.record, 0, record_bytes(entry.part));
    if (options_.seal_public && entry.part == Part::kPublic) {
      seal_record(entry, entry.version);
      entry.sealed = true;
    }
    ready(id);
    return;
  }
  SHOAL_CHECK(where.is_cold());
  ++entry.transfers;
  cold_worker_->ask({ColdJob::Op::kGet,
                     id,
                     entry.part,
                     entry.node,
                     where.stamp(),
                     {entry.record, record_bytes(entry.part)},
                     nullptr});
}

void StoreEngine::transfer_finished(FrameId id, IoRequest::Op op) {
  Cached& entry = (*cache_)[id];
  if (entry.scratch) return;
  if (op == IoRequest::Op::kRead) {
    loaded(id);
  } else {
    written(id);
  }
}

void StoreEngine::loaded(FrameId id) {
  Cached& entry = (*cache_)[id];
  const Location from = location_of(entry);
  entry.to_slab = from.is_cold();
  entry.sealed = true;
  // Checking takes the record through a cache, so whoever is about to use it does that: here it would cost twice, and
  // push the workers' data out. But other ranks read what is there without a lease.
  if (from.is_cold() || (peers_ != nullptr && entry.part == Part::kPublic)) {
    check(id, from);
  } else {
    cache_->is_new(id).store(true, std::memory_order_relaxed);
  }
  ready(id);
}

void StoreEngine::check_if_new(FrameId id) {
  std::atomic<bool>& is_new = cache_->is_new(id);
  if (!is_new.load(std::memory_order_relaxed)) return;
  const Cached& entry = (*cache_)[id];
  if (is_guest(entry.node)) {
    peers_->verify(entry.node - nodes_, entry.record);
  } else {
    check(id, Location::slab(entry.slot));
  }
  is_new.store(false, std::memory_order_relaxed);
}

// The first time that a holder of the flight asks for the record.
void StoreEngine::look_at(Flight& flight, FrameId id) {
  if (id == kNoFrame) return;
  try {
    check_if_new(id);
  } catch (const Error&) {
    flight.error = std::current_exception();
    throw;
  }
}

void StoreEngine::begin_check(Flight& flight, FrameId id, RecordCheck& check) {
  check.cancel();
  if (id == kNoFrame || !cache_->is_new(id).load(std::memory_order_relaxed)) return;
  const Cached& entry = (*cache_)[id];
  if (is_guest(entry.node)) return look_at(flight, id);
  check.begin(entry.record, record_id(id), record_bytes(entry.part), manifest_.store_id);
  flight.used_unchecked = true;
}

void StoreEngine::finish_check(Flight& flight, FrameId id, RecordCheck& check) {
  try {
    require_whole(id, Location::slab((*cache_)[id].slot), check.finish());
  } catch (const Error&) {
    flight.error = std::current_exception();
    throw;
  }
  cache_->is_new(id).store(false, std::memory_order_relaxed);
}

// The caller has written what it writes.
void StoreEngine::seal_new(Flight& flight) {
  if (!writes(flight.kind) || std::exchange(flight.written, true)) return;
  look_at(flight, flight.private_frame);  // its seal would hide the damage
  if (flight.seals[index(Part::kPublic)]) seal_record((*cache_)[flight.next], flight.next_version);
  if (flight.seals[index(Part::kPrivate)]) seal_record((*cache_)[flight.private_frame], flight.next_version);
}

void StoreEngine::complete(Flight& flight) {
  if (flight.used_unchecked) {
    look_at(flight, flight.own);
    for (const FrameId id : flight.reads) look_at(flight, id);
  }
  seal_new(flight);
}

void StoreEngine::seal_record(const Cached& entry, Version version) const {
  if (rehearsal_) return;
  seal(entry.record, {entry.part, entry.node, version}, record_bytes(entry.part), manifest_.store_id);
}

// What was read is whole, and is what was meant to be read.
void StoreEngine::check(FrameId id, Location from) const {
  if (rehearsal_) return;
  const Cached& entry = (*cache_)[id];
  require_whole(id, from, defect(entry.record, record_id(id), record_bytes(entry.part), manifest_.store_id));
}

RecordId StoreEngine::record_id(FrameId id) const {
  const Cached& entry = (*cache_)[id];
  return {entry.part, entry.node, entry.version};
}

void StoreEngine::require_whole(FrameId id, Location from, const std::string& wrong) const {
  if (wrong.empty()) return;
  const Cached& entry = (*cache_)[id];
  throw Error(fmt::format(
      "the {} record of node {} is damaged: {}: {}. Check the device, and start again from a copy "
      "of the store",
      name(entry.part), entry.node,
      from.is_slab() ? slab(entry.part).describe(from.slot()) : fmt::format("cold tier {}", cold_directory_.string()),
      wrong));
}

// The record is in its frame: whoever waited for it may go on.
void StoreEngine::ready(FrameId id) {
  cache_->became_ready(id);
  const std::size_t objects = options_.max_reads_per_step + 3;
  std::uint32_t waiter = std::exchange((*cache_)[id].first_waiter, kNoWaiter);
  while (waiter != kNoWaiter) {
    Flight& flight = *flights_[waiter / objects];
    waiter = next_waiter_[waiter];
    if (--flight.loading == 0 && &flight != opening_) deliver(flight);
  }
}

void StoreEngine::deliver(Flight& flight) {
  if (flight.serving) {
    served(flight);
    return;
  }
  FrameCache& cache = *cache_;
  if (in_place_ && writes(flight.kind)) {
    // The worker will change the slot itself; one that a checkpoint refers to must stay as it is.
    Cached& entry = cache[flight.private_frame];
    if (slab(Part::kPrivate).retained(entry.slot)) {
      const std::byte* old = entry.record;
      place_in_slot(flight.private_frame, slab(Part::kPrivate).allocate());
      std::memcpy(entry.record, old, record_bytes(Part::kPrivate));
    }
  }
  if (flight.kind == StepKind::kCreate && !rehearsal_) {
    std::memset(cache[flight.private_frame].record, 0, record_bytes(Part::kPrivate));
    cache.is_new(flight.private_frame).store(false, std::memory_order_relaxed);
  }
  if (flight.next != kNoFrame && !rehearsal_) {
    // What lies behind the payload goes to disk with it: zeros, not whatever the frame held before.
    const std::uint64_t used = sizeof(RecordHeader) + payload_bytes(Part::kPublic);
    std::memset(cache[flight.next].record + used, 0, record_bytes(Part::kPublic) - used);
  }
  flight.used_unchecked = false;
  flight.seals = {};
  flight.written = false;
  if (writes(flight.kind)) {
    flight.seals = pressed_;
    flight.seals[index(Part::kPublic)] |= options_.seal_public;
    cache[flight.private_frame].sealed = false;
  }
  const auto payload_of = [&](FrameId id) { return id == kNoFrame ? nullptr : payload(cache[id].record); };
  flight.own_payload = payload_of(flight.own);
  flight.private_payload = payload_of(flight.private_frame);
  flight.next_payload = payload_of(flight.next);
  for (std::size_t k = 0; k < flight.reads.size(); ++k) {
    if (flight.reads[k] != kNoFrame) flight.read_payloads[k] = payload(cache[flight.reads[k]].record);
  }
  ++with_caller_;
  ++leases_out_;
  ready_(NodeLease(this, &flight));
}

void StoreEngine::returned(Flight& flight) {
  FrameCache& cache = *cache_;
  if (writes(flight.kind)) {
    Cached& own = cache[flight.private_frame];
    own.dirty = true;
    own.version = flight.next_version;
    own.sealed = flight.seals[index(Part::kPrivate)];
    Cached& next = cache[flight.next];
    next.dirty = true;
    next.version = flight.next_version;
    next.sealed = flight.seals[index(Part::kPublic)];
    table_->set_pending_version(flight.node, flight.next_version);
    acted_[flight.node] = 1;
  }
  for (const FrameId id : {flight.private_frame, flight.next, flight.own}) {
    if (id != kNoFrame) cache.unpin(id);
  }
  const auto reads = rounds_.front().index->plan().reads(flight.step);
  for (std::size_t k = 0; k < reads.size(); ++k) {
    if (flight.reads[k] != kNoFrame) {
      cache.unpin(flight.reads[k]);
    } else {
      peers_->out_of_place(reads[k] - nodes_, flight.read_payloads[k] - sizeof(RecordHeader));
    }
  }

  // One use less of every record the step named, however often it named it.
  if (flight.own != kNoFrame) --uses_left_[flight.node];
  if (uses_private(flight.kind)) retire_if_dead(flight.node);
  for (std::size_t k = 0; k < reads.size(); ++k) {
    if (flight.counts[k] == 0) continue;
    --uses_left_[reads[k]];
    retire_if_dead(reads[k]);
  }
  flying_bytes_ -= flight.bytes;
  --flying_;
  ++finished_steps_;
  free_flights_.push_back(&flight);
}

// A node that has acted has a new version; when the last reader of the old one is done, nobody will ask for it again.
void StoreEngine::retire_if_dead(NodeId node) {
  if (is_guest(node)) {
    drop_guest_if_dead(node);
    return;
  }
  if (acted_[node] == 0 || uses_left_[node] != 0) return;
  const Location where = table_->location(Part::kPublic, node);
  table_->set_location(Part::kPublic, node, Location::nowhere());
  const FrameId id = cache_->current(Part::kPublic, node);
  if (id == kNoFrame) {
    retire(Part::kPublic, node, where);
    return;
  }
  Cached& entry = (*cache_)[id];
  if (entry.dead) return;
  SHOAL_CHECK(entry.pins == 0);
  entry.dead = true;
  // Used in place, frame and slot are one; being written, it still needs both. written() gives them back. A cold copy
  // that the frame came from is no part of that.
  if (!in_place_ || where.is_cold()) retire(Part::kPublic, node, where);
  if (entry.phase == Phase::kWriting) return;
  if (in_place_) {
    write_back(id, true);
  } else {
    cache_->empty(id);
  }
}

}  // namespace shoal
