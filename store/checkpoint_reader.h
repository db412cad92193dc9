// A read-only look at the records of a closed store's checkpoint, for moving nodes between stores.
//
//   CheckpointReader reader(options);               // only directory, cold_directory, id and open_epoch count
//   reader.read(node, Part::kPublic, payload);      // reader.layout().payload_bytes(part) bytes
//
// Any number of readers, of any process, may look at a store at the same time; no file of it is changed. A store that a
// run has open is refused, and a run is refused while there are readers. memory_bytes() says what one takes. Not
// thread-safe: each thread its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/block_file.h"
#include "store/checkpoint_image.h"
#include "store/cold_tier.h"
#include "store/manifest.h"
#include "store/memory_budget.h"
#include "store/state_layout.h"
#include "store/store_lock.h"
#include "store/store_options.h"

namespace shoal {

struct CheckpointInfo;

class CheckpointReader {
 public:
  // Error when there is no store, it is in use or damaged, or the epoch is not there. Without open_epoch: the newest.
  explicit CheckpointReader(const StoreOptions& options);

  // StateStore::checkpoints().
  static std::vector<CheckpointInfo> list(const StoreOptions& options);

  NodeId nodes() const { return closed_.manifest.nodes; }
  const StateLayout& layout() const { return closed_.manifest.layout; }
  std::uint64_t epoch() const { return checkpoint_.epoch; }
  const std::string& note() const { return checkpoint_.note; }
  Version version(NodeId node) const;  // 0: it was never created

  // From slab or cold tier, checked against its checksum, node and version; or zeros. Error when it is damaged or the
  // node was never created.
  void read(NodeId node, Part part, std::byte* payload_out);

  // RocksDB's share, the slot table and one record; nothing else that is kept grows with the population.
  std::uint64_t memory_bytes() const;

 private:
  // A store that nobody runs, and its metadata.
  struct ClosedStore {
    explicit ClosedStore(const StoreOptions& options);

    std::filesystem::path directory;
    std::filesystem::path cold_directory;
    Manifest manifest;
    StoreLock lock;
    MemoryBudget budget{kColdMinimumBytes};
    ColdTier cold;
    CheckpointHead head;
  };
  struct Free {
    void operator()(std::byte* memory) const;
  };

  const SlotEntry& entry(NodeId node) const;
  void read_slot(Part part, Slot slot);
  std::uint64_t record_bytes(Part part) const { return layout().record_bytes(part); }

  ClosedStore closed_;
  const Checkpoint checkpoint_;
  const std::vector<SlotEntry> entries_;
  std::array<std::unique_ptr<BlockFile>, kPartCount> slabs_;
  std::unique_ptr<std::byte[], Free> record_;
};

}  // namespace shoal
