#include "store/frame_cache.h"

#include <utility>

#include "store/error.h"

namespace shoal {

FrameCache::FrameCache(Arena& arena, NodeId nodes, std::span<DirectoryEntry> directory)
    : arena_(arena),
      directory_(directory),
      cached_(std::size_t{arena.most_frames(Part::kPublic)} + arena.most_frames(Part::kPrivate)),
      new_(cached_.size()) {
  for (const Part part : kParts) {
    current_[index(part)].assign(nodes, kNoFrame);
    heap_[index(part)].reserve(arena.most_frames(part));
  }
  next_.assign(nodes, kNoFrame);
}

std::uint64_t FrameCache::bytes_for(NodeId nodes, std::uint64_t frames) {
  return frames * (sizeof(Cached) + sizeof(std::atomic<bool>) + 2 * sizeof(FrameId)) +
         (kPartCount + 1) * sizeof(FrameId) * nodes;
}

FrameId FrameCache::id_of(const Frame& frame) const {
  return frame.part() == Part::kPublic ? frame.number() : arena_.most_frames(Part::kPublic) + frame.number();
}

FrameId FrameCache::fill(Frame frame, NodeId node) {
  const FrameId id = id_of(frame);
  Cached& entry = cached_[id];
  entry = Cached{};
  new_[id].store(false, std::memory_order_relaxed);
  entry.record = frame.data();
  entry.part = frame.part();
  entry.frame = std::move(frame);
  entry.node = node;
  entry.phase = Phase::kLoading;
  entry.pins = 1;
  return id;
}

FrameId FrameCache::bind(Part part, NodeId node, bool next) {
  Frame frame = arena_.take(part);
  if (!frame) return kNoFrame;
  const FrameId id = fill(std::move(frame), node);
  cached_[id].next = next;
  FrameId& known = next ? next_[node] : current_[index(part)][node];
  SHOAL_CHECK(known == kNoFrame);
  known = id;
  return id;
}

FrameId FrameCache::bind_scratch(Part part, NodeId node) {
  Frame frame = arena_.take(part);
  if (!frame) return kNoFrame;
  const FrameId id = fill(std::move(frame), node);
  cached_[id].scratch = true;
  return id;
}

void FrameCache::empty(FrameId id) {
  Cached& entry = cached_[id];
  SHOAL_CHECK(entry.pins == 0 && entry.phase != Phase::kEmpty && entry.transfers == 0);
  remove(id);
  FrameId& known = entry.next ? next_[entry.node] : current_[index(entry.part)][entry.node];
  if (known == id) {
    known = kNoFrame;
    if (entry.part == Part::kPublic && !entry.next) unlist(entry.node);
  }
  entry.frame.release();
  entry.phase = Phase::kEmpty;
}

void FrameCache::flip(NodeId node) {
  FrameId& current = current_[index(Part::kPublic)][node];
  SHOAL_CHECK(current == kNoFrame || cached_[current].dead);
  current = std::exchange(next_[node], kNoFrame);
  if (current == kNoFrame) {
    unlist(node);
    return;
  }
  cached_[current].next = false;
  if (cached_[current].phase != Phase::kLoading) list(cached_[current]);
}

void FrameCache::list(const Cached& entry) {
  if (entry.part != Part::kPublic || entry.next || entry.scratch || entry.node >= directory_.size()) return;
  DirectoryEntry& listed = directory_[entry.node];
  const auto offset = static_cast<std::uint64_t>(entry.record - arena_.region().data());
  const std::uint64_t before = listed.place.load(std::memory_order_relaxed);
  if (listed.version.load(std::memory_order_relaxed) == entry.version && offset_of(before) == offset &&
      mark_of(before) == entry.mark) {
    return;
  }
  unlist(entry.node);
  listed.place.store(next_place(before, offset, entry.mark), std::memory_order_relaxed);
  listed.version.store(entry.version, std::memory_order_release);
}

// Before the frame is used for anything else: whoever reads it meanwhile sees that the entry has changed.
void FrameCache::unlist(NodeId node) {
  if (node >= directory_.size()) return;
  // An exchange, not a store and a fence: as good a barrier on x86-64, and ThreadSanitizer knows no fences.
  directory_[node].version.exchange(0, std::memory_order_seq_cst);
}

void FrameCache::pin(FrameId id) {
  if (cached_[id].pins == 0) remove(id);
  count_pins(id, +1, 0);
}

void FrameCache::unpin(FrameId id) {
  count_pins(id, -1, 0);
  if (cached_[id].pins == 0 && cached_[id].phase == Phase::kReady) push(id);
}

void FrameCache::lend(FrameId id) { count_pins(id, 0, +1); }

void FrameCache::take_back(FrameId id) {
  count_pins(id, 0, -1);
  unpin(id);
}

void FrameCache::stay(FrameId id, std::uint32_t mark) {
  pin(id);
  cached_[id].mark = mark;
  list(cached_[id]);
}

void FrameCache::stay_no_more(FrameId id) {
  cached_[id].mark = 0;
  list(cached_[id]);
  unpin(id);
}

void FrameCache::count_pins(FrameId id, int pins, int loans) {
  Cached& entry = cached_[id];
  lent_ -= only_lent(id) ? 1 : 0;
  entry.pins += static_cast<std::uint32_t>(pins);
  entry.loans += static_cast<std::uint32_t>(loans);
  SHOAL_CHECK(entry.loans <= entry.pins && entry.pins < kNoWaiter);
  lent_ += only_lent(id) ? 1 : 0;
}

void FrameCache::became_ready(FrameId id) {
  Cached& entry = cached_[id];
  entry.phase = Phase::kReady;
  list(entry);
  if (entry.pins == 0) push(id);
}

void FrameCache::begin_writing(FrameId id) {
  remove(id);
  cached_[id].phase = Phase::kWriting;
}

void FrameCache::set_next_use(FrameId id, PlanTime time) {
  Cached& entry = cached_[id];
  if (entry.next_use == time) return;
  entry.next_use = time;
  if (entry.heap_place == kNoWaiter) return;
  auto& heap = heap_[index(entry.part)];
  sift_up(heap, entry.heap_place);
  sift_down(heap, entry.heap_place);
}

void FrameCache::push(FrameId id) {
  auto& heap = heap_[index(cached_[id].part)];
  heap.push_back(id);
  cached_[id].heap_place = static_cast<std::uint32_t>(heap.size() - 1);
  sift_up(heap, cached_[id].heap_place);
}

void FrameCache::remove(FrameId id) {
  const std::uint32_t at = cached_[id].heap_place;
  if (at == kNoWaiter) return;
  auto& heap = heap_[index(cached_[id].part)];
  const FrameId last = heap.back();
  heap.pop_back();
  cached_[id].heap_place = kNoWaiter;
  if (last == id) return;
  place(heap, at, last);
  sift_up(heap, at);
  sift_down(heap, cached_[last].heap_place);
}

void FrameCache::place(std::vector<FrameId>& heap, std::uint32_t at, FrameId id) {
  heap[at] = id;
  cached_[id].heap_place = at;
}

void FrameCache::sift_up(std::vector<FrameId>& heap, std::uint32_t at) {
  const FrameId id = heap[at];
  while (at > 0) {
    const std::uint32_t parent = (at - 1) / 2;
    if (cached_[heap[parent]].next_use >= cached_[id].next_use) break;
    place(heap, at, heap[parent]);
    at = parent;
  }
  place(heap, at, id);
}

void FrameCache::sift_down(std::vector<FrameId>& heap, std::uint32_t at) {
  const FrameId id = heap[at];
  for (;;) {
    std::uint32_t child = 2 * at + 1;
    if (child >= heap.size()) break;
    if (child + 1 < heap.size() && cached_[heap[child + 1]].next_use > cached_[heap[child]].next_use) ++child;
    if (cached_[heap[child]].next_use <= cached_[id].next_use) break;
    place(heap, at, heap[child]);
    at = child;
  }
  place(heap, at, id);
}

}  // namespace shoal
