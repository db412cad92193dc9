// Node -> version and where its two records are; memory-mapped, so that other processes of the host can look.
//
// During a round a node's new public version lies beside the current one (`pending`) and is invisible; flip() makes it
// the current one. The file is this run's working copy: after a crash it is rebuilt from the last checkpoint. One
// writer, the engine thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "store/location.h"
#include "store/types.h"

namespace shoal {

struct SlotEntry {
  Version version = 0;
  std::uint32_t location[kPartCount] = {Location::nowhere().word(), Location::nowhere().word()};
};
static_assert(sizeof(SlotEntry) == 16);

// The version that the running round is making.
struct PendingEntry {
  Version version = 0;
  std::uint32_t location = Location::nowhere().word();
  std::uint32_t side = 0;
};
static_assert(sizeof(PendingEntry) == 16);

class SlotTable {
 public:
  // Creates or replaces the file; all nodes start at version 0, nowhere. `path` empty: anonymous memory.
  SlotTable(const std::filesystem::path& path, NodeId nodes, std::uint64_t store_id);
  ~SlotTable();
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;

  NodeId nodes() const { return nodes_; }
  Version version(NodeId node) const { return entries_[node].version; }
  Location location(Part part, NodeId node) const { return Location::from_word(entries_[node].location[index(part)]); }
  void set_location(Part part, NodeId node, Location location) {
    entries_[node].location[index(part)] = location.word();
  }
  Location pending(NodeId node) const { return Location::from_word(pending_[node].location); }
  void set_pending(NodeId node, Location location) { pending_[node].location = location.word(); }
  // What flip() makes the node's version; one more than the current unless this is called before.
  void set_pending_version(NodeId node, Version version) { pending_[node].version = version; }
  Version pending_version(NodeId node) const { return pending_[node].version; }
  void flip(NodeId node);
  // 0 or 1, the other one after each flip: tells the cold copies of a version and its successor apart.
  unsigned side(NodeId node) const { return pending_[node].side; }

  std::span<const SlotEntry> entries() const { return {entries_, nodes_}; }
  void set_entry(NodeId node, const SlotEntry& entry) { entries_[node] = entry; }

  static std::uint64_t bytes_for(NodeId nodes);  // of memory

 private:
  NodeId nodes_;
  void* mapping_ = nullptr;
  std::uint64_t mapped_bytes_ = 0;
  SlotEntry* entries_ = nullptr;
  PendingEntry* pending_ = nullptr;
};

}  // namespace shoal
