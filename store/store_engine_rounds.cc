// A round's beginning and end, how the arena is shared out for it, and when its plan uses what again.
#include <algorithm>
#include <span>
#include <utility>

#include "store/store_engine.h"

namespace shoal {
namespace {

// Frames kept free or on their way to be, so that a fetch seldom waits for a write: as many as the device has in
// flight, and where it is a small part of all, as many as it takes to sit out a pause of the file system.
constexpr std::uint32_t kSmallReserve = 8;
constexpr std::uint32_t kMostReserve = 64;

}  // namespace

void StoreEngine::start_round() {
  const UseIndex& round = *rounds_.front().index;
  for (NodeId node = 0; node < uses_left_.size(); ++node) {
    uses_left_[node] = static_cast<std::uint32_t>(round.uses(node).size());
  }
  for (const NodeId node : round.plan().held()) ++uses_left_[node];
  const auto guests = std::span(uses_left_).subspan(nodes_);
  for (const auto& flight : flights_) {
    if (flight->serving && !flight->reads.empty()) ++uses_left_[flight->node];
  }
  std::fill(use_cursor_.begin(), use_cursor_.end(), 0);
  std::fill(seen_step_.begin(), seen_step_.end(), kNever);
  round_report_ = RoundReport{};
  round_report_.steps = round.steps();
  round_report_.guests =
      static_cast<std::uint64_t>(std::count_if(guests.begin(), guests.end(), [](auto n) { return n > 0; }));
  round_report_.seconds = -seconds_now();
  round_report_.slab_bytes_read = slab_io_->bytes_read();
  round_report_.slab_bytes_written = slab_io_->bytes_written();
  if (cold_) {
    round_report_.cold_file_bytes_read = cold_->bytes_read();
    round_report_.cold_file_bytes_written = cold_->bytes_written();
  }
  fit_arena();
  relieve_warm();
  for (FrameId id = 0; id < cache_->count(); ++id) {
    const Cached& entry = (*cache_)[id];
    if (entry.phase == Phase::kEmpty) continue;
    PlanTime time = kUnknownTime;
    if (entry.part == Part::kPublic) {
      time = round.uses(entry.node).empty() ? later_public_use(entry.node) : base_ + round.uses(entry.node).front();
    } else {
      const std::uint32_t step = round.private_step(entry.node);
      time = step == kNever ? later_private_use(entry.node) : base_ + step;
    }
    cache_->set_next_use(id, time);
  }
  cursor_ = 0;
  finished_steps_ = 0;
  told_done_ = may_end_ = false;
  ++round_number_;
  keep_held_in_place();
  running_ = true;
}

void StoreEngine::finish_round() {
  const UseIndex& round = *rounds_.front().index;
  if (peers_ != nullptr) {
    // Others may still read what this round has replaced here.
    if (!std::exchange(told_done_, true)) tell_done();
    if (!may_end_ || serving_ > 0) return;
    let_held_go();
  }
  for (std::uint32_t step = 0; step < round.steps(); ++step) {
    if (!writes(round.plan().kind(step))) continue;
    const NodeId node = round.plan().node(step);
    table_->flip(node);
    cache_->flip(node);
    acted_[node] = 0;
  }
  running_ = false;
  base_ += round.steps();
  round_report_.seconds += seconds_now();
  round_report_.slab_bytes_read = slab_io_->bytes_read() - round_report_.slab_bytes_read;
  round_report_.slab_bytes_written = slab_io_->bytes_written() - round_report_.slab_bytes_written;
  if (cold_) {
    round_report_.cold_file_bytes_read = cold_->bytes_read() - round_report_.cold_file_bytes_read;
    round_report_.cold_file_bytes_written = cold_->bytes_written() - round_report_.cold_file_bytes_written;
  }
  tell_done();
  const std::scoped_lock lock(mutex_);
  // The caller gets a copy: what is still on its way to the cold tier counts on in the original.
  ended_report_ = round_report_;
  ended_round_ = rounds_.front().index;
  rounds_.pop_front();
  round_over_ = true;
  changed_.notify_all();
}

// The caller's functions may refer to what it destroys once end_round() returns, so they are called, and let go of,
// before that.
void StoreEngine::tell_done() {
  if (done_) done_();
  ready_ = nullptr;
  done_ = nullptr;
}

// Public records are used at least as often as private ones, so a frame is worth more to them: they get what they can
// use, private records the rest, which for a plan that visits all nodes in a cycle is the optimal fixed share.
void StoreEngine::fit_arena() {
  std::uint64_t extra = 0;
  for (const Round& round : rounds_) extra = std::max(extra, round.index->extra_versions());
  const std::uint64_t public_bytes = record_bytes(Part::kPublic);
  const std::uint64_t private_bytes = record_bytes(Part::kPrivate);
  const std::uint64_t arena = arena_->bytes();
  const std::uint64_t all_public = nodes_ + extra + memory_.flights + memory_.serving;
  const std::uint64_t all_private = nodes_;

  std::uint64_t least_private = std::min<std::uint64_t>(all_private, memory_.flights);
  least_private = std::clamp<std::uint64_t>((arena - memory_.least_public * public_bytes) / private_bytes / 2,
                                            memory_.least_private, least_private);
  std::uint64_t publics =
      std::min(all_public + MemoryPlan::kSpareFrames, (arena - least_private * private_bytes) / public_bytes);
  publics = std::max<std::uint64_t>(publics, arena_->frames(Part::kPublic));
  const std::uint64_t privates =
      std::min(all_private + MemoryPlan::kSpareFrames, (arena - publics * public_bytes) / private_bytes);
  if (publics != arena_->frames(Part::kPublic) || privates != arena_->frames(Part::kPrivate)) {
    write_aside([&](const Cached& entry) { return entry.part == Part::kPrivate && entry.frame.number() >= privates; });
    arena_->split(static_cast<std::uint32_t>(publics), static_cast<std::uint32_t>(privates));
  }
  const auto press = [&](Part part, std::uint64_t frames, std::uint64_t all) {
    pressed_[index(part)] = frames < all;
    // A pool that only streams needs a larger share of it on the way out than a cache does.
    const std::uint64_t least = std::clamp<std::uint64_t>(frames / 3, 1, kSmallReserve);
    reserve_[index(part)] = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(frames / 32, least, kMostReserve));
  };
  press(Part::kPublic, publics, all_public);
  press(Part::kPrivate, privates, all_private);
}

// Between rounds: what `which` names leaves RAM.
void StoreEngine::write_aside(const std::function<bool(const Cached&)>& which) {
  settle();
  for (FrameId id = 0; id < cache_->count(); ++id) {
    const Cached& entry = (*cache_)[id];
    if (entry.phase != Phase::kEmpty && which(entry)) evict(id);
  }
  settle();
}

PlanTime StoreEngine::later_public_use(NodeId node) const {
  if (is_guest(node)) return kUnknownTime;
  PlanTime base = base_ + rounds_.front().index->steps();
  for (std::size_t i = 1; i < rounds_.size(); ++i) {
    const UseIndex& round = *rounds_[i].index;
    if (!round.uses(node).empty()) return base + round.uses(node).front();
    if (round.acts(node)) return kUnknownTime;
    base += round.steps();
  }
  return kUnknownTime;
}

PlanTime StoreEngine::later_private_use(NodeId node) const {
  PlanTime base = base_ + rounds_.front().index->steps();
  for (std::size_t i = 1; i < rounds_.size(); ++i) {
    const UseIndex& round = *rounds_[i].index;
    if (round.private_step(node) != kNever) return base + round.private_step(node);
    base += round.steps();
  }
  return kUnknownTime;
}

PlanTime StoreEngine::next_public_use(NodeId node, std::uint32_t after_step) {
  const auto uses = rounds_.front().index->uses(node);
  std::uint32_t& at = use_cursor_[node];
  while (at < uses.size() && uses[at] <= after_step) ++at;
  if (at < uses.size()) return base_ + uses[at];
  return rounds_.front().index->acts(node) ? kUnknownTime : later_public_use(node);
}

}  // namespace shoal
