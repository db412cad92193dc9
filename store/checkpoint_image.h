// Checkpoints as the metadata database keeps them: one head that says which there are, and for each its slot table in
// chunks; every value with a checksum.
//
// There is one checkpoint, the committed one, or a second with the next epoch, which is prepared. Their tables are kept
// apart by the epoch's parity, and the head is replaced as a whole, so that a checkpoint comes and goes atomically.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "store/cold_tier.h"
#include "store/manifest.h"
#include "store/slot_table.h"

namespace shoal {

struct ColdKey {
  Part part = Part::kPublic;
  NodeId node = kNoNode;
  Epoch stamp = 0;
};

struct Checkpoint {
  Epoch epoch = 0;   // how many checkpoints there were before; 0: the empty one of a new store
  std::string note;  // the caller's
  // Cold records that the one before refers to and this one does not; erased once that is gone, again after a crash.
  std::vector<ColdKey> garbage;
};

struct CheckpointHead {
  std::uint64_t store_id = 0;
  NodeId nodes = 0;
  std::vector<Checkpoint> checkpoints;  // the committed one, then the prepared one, if any

  // Error when it is not that store's.
  void require(const Manifest& manifest, const std::filesystem::path& directory,
               const std::filesystem::path& cold_directory) const;
};

// What to commit: the head alone, or with the slot table of its last checkpoint.
using MetadataValues = std::vector<std::pair<std::string, std::string>>;
MetadataValues checkpoint_values(const CheckpointHead& head);
MetadataValues checkpoint_values(const CheckpointHead& head, std::span<const SlotEntry> entries);

// Both throw Error, naming the directory, when a value is missing or damaged.
CheckpointHead read_checkpoint_head(const ColdTier& cold, const std::string& directory);
std::vector<SlotEntry> read_checkpoint_entries(const ColdTier& cold, NodeId nodes, Epoch epoch,
                                               const std::string& directory);

// The one of that epoch, or the newest; an Error that names those there are when it is not among them.
const Checkpoint& chosen_checkpoint(const CheckpointHead& head, std::optional<std::uint64_t> epoch,
                                    const std::string& directory);

}  // namespace shoal
