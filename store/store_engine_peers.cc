// Records from other ranks, and for them. See peer_link.h.
#include <fmt/format.h>

#include <algorithm>

#include "store/error.h"
#include "store/store_engine.h"

namespace shoal {

bool StoreEngine::take_peers() {
  if (peers_ == nullptr || !peers_->has_news()) return false;
  peers_->collect(news_);
  for (const FrameId id : news_.arrived) {
    --guests_loading_;
    --(*cache_)[id].transfers;
    ready(id);
  }
  asked_.insert(asked_.end(), news_.asked.begin(), news_.asked.end());
  for (const std::uint32_t place : news_.released) stop_serving(*flights_[place]);
  return true;
}

// A pinned frame with the record on its way; kNoFrame when there is no room yet.
FrameId StoreEngine::use_guest(Flight& flight, NodeId node) {
  const FrameId id = bind(flight, Part::kPublic, node, false);
  if (id == kNoFrame) return kNoFrame;
  ++round_report_.guest_fetches;
  if (peers_->fetch(id, node - nodes_, (*cache_)[id].record)) {
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
std::uint32_t StoreEngine::kept_for_serving(Part part) const {
  return part == Part::kPublic ? memory_.serving - serving_ : 0;
}

// One frame less that could be emptied; enough must be left.
bool StoreEngine::may_pin(Part part) const {
  const std::uint32_t kept = kept_for_serving(part);
  return kept == 0 || arena_->free_frames(part) + cache_->evictable(part) + dropping_[index(part)] > kept;
}

// Not before its first round ends, nor where nobody holds it after its last local reader: the next version comes with
// the round's end.
bool StoreEngine::has_current(NodeId node) const {
  const FrameId id = cache_->current(Part::kPublic, node);
  return id != kNoFrame ? !(*cache_)[id].dead : !table_->location(Part::kPublic, node).is_nowhere();
}

// In the order of arrival, but for those who ask for what the round's end will bring.
void StoreEngine::serve_waiting() {
  // What ends the round waits for the readers to be gone; the next ones get the new versions.
  const bool ending = told_done_ && may_end_ && running_;
  if (asked_.empty() || serving_paused_ || ending) return;
  for (auto request = asked_.begin(); request != asked_.end() && !free_serving_.empty();) {
    if (request->node >= nodes_) {
      throw Error(fmt::format("another rank asks for node {} of {}", request->node, nodes_));
    }
    if (!has_current(request->node) || table_->version(request->node) < request->version) {
      ++request;
      continue;
    }
    Flight& flight = *free_serving_.back();
    flight.node = request->node;
    flight.request = *request;
    flight.gathered = 3;
    flight.loading = 0;
    flight.reads.clear();
    const FrameId id = use(flight, Part::kPublic, flight.node, false);
    if (id == kNoFrame) return;  // its frames are on their way to be free
    free_serving_.pop_back();
    flight.reads.push_back(id);
    ++serving_;
    ++uses_left_[flight.node];
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
  cache_->unpin(flight.reads[0]);
  flight.reads.clear();
  --serving_;
  free_serving_.push_back(&flight);
  --uses_left_[flight.node];
  retire_if_dead(flight.node);
}

}  // namespace shoal
