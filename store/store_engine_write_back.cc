// What leaves RAM: which record, where its durable copy goes, and what becomes of the copy before.
#include <algorithm>
#include <utility>

#include "store/error.h"
#include "store/record.h"
#include "store/store_engine.h"

namespace shoal {

// Belady: the record whose next use is farthest away goes first. Evicts until enough frames are free or on their way to
// be.
bool StoreEngine::make_room(Part part) {
  while (arena_->free_frames(part) + dropping_[index(part)] < reserve_[index(part)] + kept_for_serving(part)) {
    const FrameId victim = cache_->victim(part);
    if (victim == kNoFrame) break;
    evict(victim);
  }
  return arena_->free_frames(part) > 0;
}

void StoreEngine::evict(FrameId id) {
  Cached& entry = (*cache_)[id];
  const bool must_write = entry.dirty || (entry.to_slab && warm_room(entry.part));
  if (must_write || in_place_) {
    write_back(id, true);
  } else {
    cache_->empty(id);
  }
}

// Starts the write of a record to where its durable copy belongs; with `drop`, the frame is free afterwards.
void StoreEngine::write_back(FrameId id, bool drop) {
  Cached& entry = (*cache_)[id];
  cache_->begin_writing(id);
  entry.drop = drop;
  if (drop) ++dropping_[index(entry.part)];
  if (in_place_) {
    if (!std::exchange(entry.sealed, true)) seal_record(entry, entry.version);
    slab_io_->start(IoRequest::Op::kWrite, id, entry.slot);
    return;
  }
  if (is_zero(entry)) {
    entry.written_to = Location::zero();
    written(id);
    return;
  }
  if (!std::exchange(entry.sealed, true)) seal_record(entry, entry.version);
  const Location before = location_of(entry);
  if (entry.part == Part::kPrivate && before.is_slab() && !slab(entry.part).retained(before.slot())) {
    entry.written_to = before;
  } else if (warm_room(entry.part)) {
    entry.written_to = Location::slab(warm_slot(entry));
  } else {
    const unsigned side = table_->side(entry.node);
    const Epoch stamp = cold_stamp(newest_epoch() + 1, entry.next ? 1 - side : side);
    entry.written_to = Location::cold(stamp);
    ++entry.transfers;
    cold_worker_->ask(
        {ColdJob::Op::kPut, id, entry.part, entry.node, stamp, {entry.record, record_bytes(entry.part)}, nullptr});
    return;
  }
  slab_io_->start(IoRequest::Op::kWrite, id, entry.written_to.slot());
}

void StoreEngine::written(FrameId id) {
  Cached& entry = (*cache_)[id];
  const Location now = in_place_ ? Location::slab(entry.slot) : entry.written_to;
  if (entry.dead) {
    retire(entry.part, entry.node, now);
  } else {
    const Location before = location_of(entry);
    if (before != now) {
      set_location(entry, now);
      retire(entry.part, entry.node, before);
    }
    entry.dirty = false;
    entry.to_slab = now.is_cold();
  }
  if (entry.drop) --dropping_[index(entry.part)];
  if (entry.pins == 0 && (entry.drop || entry.dead)) {
    cache_->empty(id);
  } else {
    entry.drop = false;
    ready(id);
  }
}

// Where there are no bytes to look at: a private record is zeros until its node acts for the first time.
bool StoreEngine::is_zero(const Cached& entry) const {
  if (rehearsal_) return entry.part == Part::kPrivate && entry.version <= 1;
  return all_zero({payload(entry.record), payload_bytes(entry.part)});
}

// The files together take no more disk than warm_bytes: what one of them has and does not use makes room for the other.
Slot StoreEngine::warm_slot(const Cached& entry) {
  Slab& own = slab(entry.part);
  Slab& other = slab(entry.part == Part::kPublic ? Part::kPrivate : Part::kPublic);
  if (own.can_allocate_in_place()) return own.allocate(wanted_slot(entry));
  const auto taken = [&] { return own.disk_bytes() + other.disk_bytes(); };
  const std::uint64_t needed = taken() + own.slot_bytes();
  if (needed > options_.warm_bytes) {
    other.punch_free((needed - options_.warm_bytes + other.slot_bytes() - 1) / other.slot_bytes());
  }
  const std::uint64_t room = options_.warm_bytes - std::min(options_.warm_bytes, taken());
  return own.allocate(wanted_slot(entry), room / own.slot_bytes());
}

bool StoreEngine::warm_room(Part part) const {
  std::uint64_t used = slab(part).slot_bytes();
  for (const Part each : kParts) used += slab(each).used_bytes();
  return used <= options_.warm_bytes;
}

// Private records in the order of the plan: neighbours in time are then neighbours on disk, and move together.
std::optional<std::uint64_t> StoreEngine::wanted_slot(const Cached& entry) const {
  if (entry.part == Part::kPublic || rounds_.empty()) return std::nullopt;
  const std::uint32_t step = rounds_.front().index->private_step(entry.node);
  return step == kNever ? std::nullopt : std::optional<std::uint64_t>(step);
}

Location StoreEngine::location_of(const Cached& entry) const {
  return entry.next ? table_->pending(entry.node) : table_->location(entry.part, entry.node);
}

void StoreEngine::set_location(const Cached& entry, Location location) {
  if (entry.next) {
    table_->set_pending(entry.node, location);
  } else {
    table_->set_location(entry.part, entry.node, location);
  }
}

// The running store refers to that copy no more. A checkpoint may: slabs know by themselves, the cold tier by the
// epoch.
void StoreEngine::retire(Part part, NodeId node, Location location, AfterRelease after) {
  if (location.is_slab()) {
    slab(part).release(location.slot(), after);
  } else if (location.is_cold()) {
    if (epoch_of_stamp(location.stamp()) <= newest_epoch()) {
      dead_cold_.push_back({part, node, location.stamp()});
    } else if (cold_) {
      cold_->erase(location.stamp(), part, node, record_bytes(part));
    }
  }
}

// Used in place, the frame's record is the slot itself; one that the table does not know yet is the frame's until
// written() says so.
void StoreEngine::place_in_slot(FrameId id, Slot slot) {
  Cached& entry = (*cache_)[id];
  const Slab& file = slab(entry.part);
  entry.slot = slot;
  if (in_place_) entry.record = device_->in_place(file.file(), file.offset(slot));
}

}  // namespace shoal
