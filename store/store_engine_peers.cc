// Records from other ranks, and for them. See peer_link.h.
#include <fmt/format.h>

#include <algorithm>

#include "store/error.h"
#include "store/store_engine.h"

namespace shoal {

bool StoreEngine::take_peers() {
  if (peers_ == nullptr || !peers_->has_news()) return false;
  peers_->collect(news_);
  if (failed_) return true;
  for (const FrameId id : news_.arrived) {
    --guests_loading_;
    --(*cache_)[id].transfers;
    cache_->is_new(id).store(true, std::memory_order_relaxed);
    ready(id);
  }
  asked_.insert(asked_.end(), news_.asked.begin(), news_.asked.end());
  for (const std::uint32_t place : news_.released) stop_serving(*flights_[place]);
  return true;
}

// Where RAM is enough for everything, what others read in this round stays where it is: ranks of one host then read it
// there, which takes them neither a frame nor a copy.
void StoreEngine::keep_held_in_place() {
  if (peers_ == nullptr || pressed_[index(Part::kPublic)] || in_place_) return;
  const auto mark = static_cast<std::uint32_t>(round_mark(round_number_));
  for (const NodeId node : rounds_.front().index->plan().held()) {
    const FrameId id = cache_->current(Part::kPublic, node);
    if (id != kNoFrame && (*cache_)[id].phase == Phase::kReady) cache_->stay(id, mark);
  }
}

void StoreEngine::let_held_go() {
  for (const NodeId node : rounds_.front().index->plan().held()) {
    const FrameId id = cache_->current(Part::kPublic, node);
    if (id != kNoFrame && (*cache_)[id].mark != 0) cache_->stay_no_more(id);
    --uses_left_[node];
    retire_if_dead(node);
  }
}

bool StoreEngine::read_in_place(Flight& flight, NodeId guest) {
  if (cache_->current(Part::kPublic, guest) != kNoFrame) return false;
  const bool first = seen_step_[guest] == kNever;
  const std::byte* const record = peers_->in_place(guest - nodes_, round_number_, first);
  if (record == nullptr) return false;
  if (first) ++round_report_.guest_fetches;
  flight.reads.push_back(kNoFrame);
  flight.read_payloads.push_back(payload(record));
  return true;
}

// A pinned frame with the record on its way; kNoFrame when there is no room yet.
FrameId StoreEngine::use_guest(Flight& flight, NodeId node) {
  const FrameId id = bind(flight, Part::kPublic, node, false);
  if (id == kNoFrame) return kNoFrame;
  ++round_report_.guest_fetches;
  if (peers_->fetch(id, node - nodes_, round_number_, (*cache_)[id].record)) {
    cache_->became_ready(id);
  } else {
    ++guests_loading_;
    ++(*cache_)[id].transfers;
  }
  return id;
}

void StoreEngine::drop_guest_if_dead(NodeId node) {
  if (uses_left_[node] != 0) return;
  const FrameId id = cache_->current(Part::kPublic, node);
  if (id != kNoFrame) cache_->empty(id);
}

// Frames that a local step must leave alone, so that others are served however busy this rank is. Two ranks can never
// wait for each other: a step here may wait for a record from there, but to send one back takes only these frames.
// A frame that a step uses as well is none of them: when the others are done with it, the step still has it.
std::uint32_t StoreEngine::kept_for_serving(Part part) const {
  return part == Part::kPublic ? memory_.serving - cache_->lent() : 0;
}

// A step that pins the frame leaves enough others that could be emptied. One that only others read is theirs until the
// step has it, and takes another from them then.
bool StoreEngine::may_pin(FrameId id) const {
  const Cached& entry = (*cache_)[id];
  const bool lent = cache_->only_lent(id);
  const std::uint32_t kept = kept_for_serving(entry.part);
  if (!lent && (entry.pins > 0 || kept == 0)) return true;
  return arena_->free_frames(entry.part) + cache_->evictable(entry.part) + dropping_[index(entry.part)] > kept;
}

// In the order of arrival, but for those who ask for what the round's end will bring.
void StoreEngine::serve_waiting() {
  no_frame_to_serve_ = false;
  // What ends the round waits for the readers to be gone; the next ones get the new versions.
  const bool ending = told_done_ && may_end_ && running_;
  if (asked_.empty() || serving_paused_ || ending || failed_) return;
  for (auto request = asked_.begin(); request != asked_.end() && !free_serving_.empty();) {
    if (request->node >= nodes_) {
      throw Error(fmt::format("another rank asks for node {} of {}", request->node, nodes_));
    }
    const Version current = table_->version(request->node);
    if (current == 0 || current < request->version) {
      ++request;
      continue;
    }
    Flight& flight = *free_serving_.back();
    flight.node = request->node;
    flight.request = *request;
    // Not held, the version that others see is gone once the node's own readers are done. To wait for the round's end
    // is no way out: this round may wait for theirs.
    flight.replaced = is_replaced(flight.node);
    if (flight.replaced && request->version != kAnyVersion) {
      throw Error(fmt::format("another rank asks for version {} of node {}, which the plan does not hold",
                              request->version, request->node));
    }
    flight.gathered = 0;
    flight.loading = 0;
    flight.reads.clear();
    const FrameId id = use(flight, Part::kPublic, flight.node, false);
    no_frame_to_serve_ = id == kNoFrame;
    if (no_frame_to_serve_) return;  // its frames are on their way to be free
    free_serving_.pop_back();
    flight.reads.push_back(id);
    cache_->lend(id);
    ++serving_;
    if (!flight.replaced) ++uses_left_[flight.node];
    request = asked_.erase(request);
    if (flight.loading == 0) served(flight);
  }
}

void StoreEngine::served(Flight& flight) {
  const Cached& entry = (*cache_)[flight.reads[0]];
  peers_->serve(flight.request, flight.index, entry.version,
                static_cast<std::uint64_t>(entry.record - arena_->region().data()));
}

void StoreEngine::stop_serving(Flight& flight) {
  cache_->take_back(flight.reads[0]);
  flight.reads.clear();
  --serving_;
  free_serving_.push_back(&flight);
  if (flight.replaced) return;
  --uses_left_[flight.node];
  retire_if_dead(flight.node);
}

}  // namespace shoal
