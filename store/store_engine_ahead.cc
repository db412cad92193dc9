// What the next round begins with is read before this one ends.
#include <algorithm>

#include "store/store_engine.h"

namespace shoal {

// All steps of this round have their frames. While the last ones are worked on, what the next round begins with is
// read, as far as this round has done with it: workers would have nothing to do until it is there. Without that a
// round of eight ResNet-18 began with a wait of 0.2 s.
void StoreEngine::read_for_next_round() {
  if (rounds_.size() < 2 || in_place_) return;
  const UseIndex& next = *rounds_[1].index;
  const std::uint32_t steps = std::min(next.steps(), memory_.flights - std::min(memory_.flights, flying_));
  const PlanTime begin = base_ + rounds_[0].index->steps();
  std::uint64_t bytes = flying_bytes_;
  for (std::uint32_t step = 0; step < steps && bytes < memory_.prefetch; ++step) {
    const StepKind kind = next.plan().kind(step);
    const NodeId node = next.plan().node(step);
    const auto read = [&](Part part, NodeId of) { return read_ahead(part, of, begin + step, bytes); };
    if (reads_own(kind) && !read(Part::kPublic, node)) return;
    if (uses_private(kind) && kind != StepKind::kCreate && !read(Part::kPrivate, node)) return;
    for (const NodeId neighbour : next.plan().reads(step)) {
      if (!is_guest(neighbour) && !read(Part::kPublic, neighbour)) return;
    }
  }
}

// Adds to `bytes` what has come or comes that way; false when there is no frame for it yet.
bool StoreEngine::read_ahead(Part part, NodeId node, PlanTime use, std::uint64_t& bytes) {
  const bool acts = rounds_.front().index->acts(node);
  if (acts && acted_[node] == 0) return true;  // there is another version to come
  const bool replaced = acts && part == Part::kPublic;
  FrameId id = replaced ? cache_->next(node) : cache_->current(part, node);
  if (id == kNoFrame) {
    const Location where = replaced ? table_->pending(node) : table_->location(part, node);
    if (!where.is_slab() && !where.is_cold()) return true;
    // Beyond the reserve, so that nothing is evicted in turn; and only for what is used later.
    const std::uint32_t kept = kept_for_serving(part) + reserve_[index(part)];
    if (arena_->free_frames(part) + dropping_[index(part)] <= kept) {
      const FrameId victim = cache_->victim(part);
      if (victim == kNoFrame || (*cache_)[victim].next_use <= use) return false;
      evict(victim);
    }
    if (arena_->free_frames(part) <= kept) return false;
    id = cache_->bind(part, node, replaced);
    (*cache_)[id].ahead = true;
    cache_->set_next_use(id, use);
    load(id);
    cache_->unpin(id);
  }
  if ((*cache_)[id].ahead) bytes += record_bytes(part);
  return true;
}

}  // namespace shoal
