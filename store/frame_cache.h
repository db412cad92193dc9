// What is in RAM: for every frame whose record it holds, in which phase, how soon it is used again; and for every node,
// which frames.
//
// Knows no I/O and makes no decision but one: victim() names the unpinned record whose next use is farthest away
// (Belady). Owned by the engine thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "store/arena.h"
#include "store/location.h"
#include "store/peer_link.h"
#include "store/types.h"

namespace shoal {

using FrameId = std::uint32_t;
inline constexpr FrameId kNoFrame = std::numeric_limits<FrameId>::max();
inline constexpr std::uint32_t kNoWaiter = std::numeric_limits<std::uint32_t>::max();

// Time in steps since the store was opened.
using PlanTime = std::uint64_t;
inline constexpr PlanTime kUnknownTime = std::numeric_limits<PlanTime>::max();

enum class Phase : std::uint8_t { kEmpty, kLoading, kReady, kWriting };

struct Cached {
  Frame frame;
  std::byte* record = nullptr;  // the frame's memory, or the slot itself where records are used in place
  PlanTime next_use = kUnknownTime;
  Version version = 0;
  NodeId node = kNoNode;
  std::uint32_t pins = 0;
  std::uint32_t loans = 0;               // of those, by other ranks
  std::uint32_t mark = 0;                // one of the pins is the round's, with this mark for other ranks; 0: none is
  std::uint32_t heap_place = kNoWaiter;  // in the heap of evictable frames; kNoWaiter: not there
  std::uint32_t first_waiter = kNoWaiter;
  std::uint32_t transfers = 0;  // requests of this record under way
  Slot slot = 0;                // the record came from, or is in when used in place
  Location written_to;          // writing: where it will be
  Phase phase = Phase::kEmpty;
  Part part = Part::kPublic;
  bool next = false;     // a public version that the round's end makes visible
  bool dirty = false;    // newer than, or missing on, disk
  bool to_slab = false;  // came from the cold tier: belongs into a slot if there is room
  bool drop = false;     // writing: to be emptied when done
  bool dead = false;     // writing: nobody needs it any more
  bool sealed = false;   // its header and checksum are those of its payload and version
  bool ahead = false;    // read in the round before the one that uses it, and not used yet
  bool scratch = false;  // belongs to no node's residency: a buffer for bulk work
};

class FrameCache {
 public:
  // `directory`, when there is one, tells others which current public records are there.
  FrameCache(Arena& arena, NodeId nodes, std::span<DirectoryEntry> directory = {});

  Cached& operator[](FrameId id) { return cached_[id]; }
  FrameId count() const { return static_cast<FrameId>(cached_.size()); }

  // kNoFrame when the record is not in RAM.
  FrameId current(Part part, NodeId node) const { return current_[index(part)][node]; }
  FrameId next(NodeId node) const { return next_[node]; }

  // Its record came from a slab or another rank, and nobody has looked at its checksum yet. Of a pinned frame, any
  // thread.
  std::atomic<bool>& is_new(FrameId id) { return new_[id]; }

  // Binds a free frame to a record (phase kLoading, one pin); kNoFrame when no frame is free.
  FrameId bind(Part part, NodeId node, bool next);
  FrameId bind_scratch(Part part, NodeId node);  // the same, but nobody will find it under that node
  void empty(FrameId id);                        // the frame is free again
  void flip(NodeId node);                        // the next public version is the current one

  void pin(FrameId id);
  void unpin(FrameId id);                     // evictable when it is ready and was the last pin
  void lend(FrameId id);                      // one of its pins is another rank's
  void take_back(FrameId id);                 // and no more, nor is there that pin
  void stay(FrameId id, std::uint32_t mark);  // pinned, and others may know: they read it in place
  void stay_no_more(FrameId id);
  std::uint32_t lent() const { return lent_; }  // frames that only other ranks have pinned
  bool only_lent(FrameId id) const { return cached_[id].loans > 0 && cached_[id].loans == cached_[id].pins; }
  void became_ready(FrameId id);  // after loading or writing
  void set_next_use(FrameId id, PlanTime time);
  FrameId victim(Part part) const { return heap_[index(part)].empty() ? kNoFrame : heap_[index(part)].front(); }
  std::uint32_t evictable(Part part) const { return static_cast<std::uint32_t>(heap_[index(part)].size()); }
  void begin_writing(FrameId id);  // out of the heap

  static std::uint64_t bytes_for(NodeId nodes, std::uint64_t frames);

 private:
  FrameId id_of(const Frame& frame) const;
  void list(const Cached& entry);
  void unlist(NodeId node);
  void count_pins(FrameId id, int pins, int loans);
  FrameId fill(Frame frame, NodeId node);
  void push(FrameId id);
  void remove(FrameId id);
  void sift_up(std::vector<FrameId>& heap, std::uint32_t place);
  void sift_down(std::vector<FrameId>& heap, std::uint32_t place);
  void place(std::vector<FrameId>& heap, std::uint32_t at, FrameId id);

  Arena& arena_;
  std::span<DirectoryEntry> directory_;
  std::vector<Cached> cached_;  // public frames first, then private ones
  std::vector<std::atomic<bool>> new_;
  std::array<std::vector<FrameId>, kPartCount> current_;
  std::vector<FrameId> next_;
  std::array<std::vector<FrameId>, kPartCount> heap_;
  std::uint32_t lent_ = 0;
};

}  // namespace shoal
