// A checkpoint as the metadata database keeps it: one head and the slot table in chunks, each with a checksum.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "store/cold_tier.h"
#include "store/slot_table.h"

namespace shoal {

struct ColdKey {
  Part part = Part::kPublic;
  NodeId node = kNoNode;
  Epoch stamp = 0;
};

struct CheckpointHead {
  std::uint64_t store_id = 0;
  NodeId nodes = 0;
  Epoch epoch = 0;   // how many checkpoints were committed, this one included; 0: the empty one of a new store
  std::string note;  // the caller's
  std::vector<ColdKey>
      garbage;  // cold records that nothing refers to since this checkpoint; erased after it, again after a crash
};

std::vector<std::pair<std::string, std::string>> checkpoint_values(const CheckpointHead& head,
                                                                   std::span<const SlotEntry> entries);

// Both throw Error, naming the directory, when a value is missing or damaged.
CheckpointHead read_checkpoint_head(const ColdTier& cold, const std::string& directory);
std::vector<SlotEntry> read_checkpoint_entries(const ColdTier& cold, const CheckpointHead& head,
                                               const std::string& directory);

}  // namespace shoal
