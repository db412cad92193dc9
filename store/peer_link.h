// What joins a store to the stores of other ranks: the records of theirs that its steps read, and its own that they
// read.
//
// The store knows no MPI; comm/ implements PeerLink. A guest is a node of another store. Plans name it by an id from
// StoreOptions::nodes on, only among the reads of a step. The engine asks for its record when a step needs it, keeps it
// in a frame like its own for as long as the round uses it, and lets go of it at the round's end at the latest.
//
// The other way round, a directory says which of the own public records are in RAM, where, and in which version; it
// lies, like the arena, in memory that others can read. What is not in RAM they ask for: the engine brings it into one
// of the frames that are reserved for serving and keeps it there until they have it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "store/types.h"

namespace shoal {

// Of one public record. Written by the engine thread alone; read by anyone, like a seqlock: version, place, the record,
// and both again.
struct DirectoryEntry {
  std::atomic<Version> version{0};      // 0: not in RAM
  std::atomic<std::uint64_t> place{0};  // where in the arena, and above that how often the entry has been filled
};
static_assert(sizeof(DirectoryEntry) == 16 && std::atomic<Version>::is_always_lock_free);

// The count tells a record that has stayed from one that has left and come back to the same frame while it was read.
// Records begin at blocks, which leaves room for a mark: not 0, the record stays where it is to the end of that round.
inline constexpr unsigned kOffsetBits = 48;
constexpr std::uint64_t mark_of(std::uint64_t place) { return place % kBlockBytes; }
constexpr std::uint64_t offset_of(std::uint64_t place) {
  return (place & ((std::uint64_t{1} << kOffsetBits) - 1)) - mark_of(place);
}
constexpr std::uint64_t round_mark(std::uint64_t round) { return 1 + round % (kBlockBytes - 1); }
constexpr std::uint64_t next_place(std::uint64_t place, std::uint64_t offset, std::uint64_t mark) {
  return ((place >> kOffsetBits) + 1) << kOffsetBits | offset | mark;
}

inline constexpr Version kAnyVersion = 0;

struct ServeRequest {
  NodeId node = kNoNode;
  Version version = kAnyVersion;  // may be one that the end of the running round makes current
  std::uint64_t ticket = 0;       // the asker's
};

class PeerLink {
 public:
  struct News {
    std::vector<std::uint32_t> arrived;   // frames
    std::vector<ServeRequest> asked;      // by others
    std::vector<std::uint32_t> released;  // places of served records that the askers have
  };

  virtual ~PeerLink() = default;

  // Called on the engine thread; none of them blocks. `record` is StateLayout::record_bytes(Part::kPublic) long.
  // All ranks count their rounds alike.
  // True: the record is there already; false: it is on its way, and the frame will be among those arrived.
  virtual bool fetch(std::uint32_t frame, NodeId guest, std::uint64_t round, std::byte* record) = 0;
  // The record itself, in its owner's memory, if it is marked to stay there for this round and may be read there; else
  // null. `first`: that the round uses it. out_of_place() when the step is done.
  virtual const std::byte* in_place(NodeId guest, std::uint64_t round, bool first) = 0;
  virtual void out_of_place(NodeId guest, const std::byte* record) = 0;
  virtual void serve(const ServeRequest& request, std::uint32_t place, Version version, std::uint64_t offset) = 0;
  virtual bool has_news() = 0;
  virtual void collect(News& news) = 0;  // replaces the contents; throws what went wrong

  // Called by the worker that first uses a record which has arrived, when its bytes pass through that core's caches
  // anyway. Throws Error if they are not what was sent.
  virtual void verify(NodeId guest, const std::byte* record) const = 0;

  // Whom to tell that there is news; empty: nobody. Does not return while the function before is being called.
  virtual void set_wake(std::function<void()> wake) = 0;
};

}  // namespace shoal
