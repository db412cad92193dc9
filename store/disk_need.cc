#include "store/disk_need.h"

#include <algorithm>
#include <limits>

#include "store/cold_tier.h"
#include "store/file_system.h"
#include "store/memory_plan.h"
#include "store/slab.h"
#include "store/slot_table.h"

namespace shoal {
namespace {

// RocksDB's MANIFEST, of which 4 MiB are allocated at once, options, lock; the store's own small files.
constexpr std::uint64_t kSmallFiles = 8 << 20;
// Slot tables of checkpoints that the database has not dropped yet. Measured over 40 checkpoints of 100,000 nodes: 3 or
// 4, and 10 while it compacts.
constexpr std::uint64_t kMostTables = 12;

// Records in the cold tier take more than their bytes: what is dead stays until a compaction, which begins when some
// files of erased keys have come together, or a third of the tier is dead; and while it runs there are two copies of
// what it reads, up to 25 files. Measured with 2,000 records of 240 KB: twice what is alive.
std::uint64_t with_dead_records(std::uint64_t alive, std::uint64_t record_bytes) {
  constexpr std::uint64_t kDeadPieces = 5 * 256;
  constexpr std::uint64_t kCompactedAtOnce = 25 * (std::uint64_t{64} << 20);
  const std::uint64_t piece = std::min<std::uint64_t>(record_bytes, ColdTier::kPieceBytes);
  return alive + std::max(alive / 3, kDeadPieces * piece) + std::min(alive, kCompactedAtOnce);
}

bool limited(const StoreOptions& options, const SlotUse& use) {
  return options.warm_bytes != std::numeric_limits<std::uint64_t>::max() && !use.in_place;
}

}  // namespace

DiskNeed& DiskNeed::operator+=(const DiskNeed& other) {
  store += other.store;
  cold += other.cold;
  return *this;
}

bool uses_in_place(const StoreOptions& options) {
  if (options.serving_frames > 0) return false;  // others read the arena
  if (options.io != IoEngine::kAuto || options.directory.empty()) return options.io == IoEngine::kMapped;
  const FileSystem disk = file_system_of(options.directory);
  return disk.is_memory || !disk.takes_direct_io;
}

SlotCounts most_slots(const StoreOptions& options, const SlotUse& use) {
  const std::uint64_t nodes = options.nodes;
  SlotCounts slots{0, 0};
  if (!use.in_ram || use.in_place) {
    // A slot for every version that a round keeps alive, and for those on their way out.
    slots = {std::min(2 * nodes, MemoryPlan::for_options(options).all_public), nodes};
  } else if (use.checkpoints > 0) {
    slots = {nodes, nodes};
  }
  if (use.checkpoints > 1) {
    for (std::uint64_t& count : slots) count += nodes;
  }
  return slots;
}

std::uint64_t slab_bytes_for(const StoreOptions& options, const SlotUse& use, const SlotCounts& slots) {
  std::uint64_t bytes = 0;
  for (const Part part : kParts) {
    const std::uint64_t slot = options.layout.record_bytes(part);
    bytes += Slab::slots_for(slots[index(part)], slot) * slot;
  }
  return limited(options, use) ? std::min(bytes, options.warm_bytes) : bytes;
}

std::uint64_t cold_bytes_of(const StoreOptions& options, const SlotUse& use, const SlotCounts& slots) {
  if (!limited(options, use)) return 0;
  std::uint64_t bytes = 0;
  for (const Part part : kParts) bytes += slots[index(part)] * options.layout.record_bytes(part);
  return bytes - std::min(bytes, options.warm_bytes);
}

DiskNeed disk_for(const StoreOptions& options, const SlotUse& use, const SlotCounts& slots, std::uint64_t cold_bytes) {
  DiskNeed need;
  need.store = slab_bytes_for(options, use, slots) + SlotTable::bytes_for(options.nodes);
  const std::uint64_t table = options.nodes * sizeof(SlotEntry);
  need.cold = kSmallFiles + std::min(use.checkpoints + 2, kMostTables) * table;
  if (cold_bytes > 0) need.cold += with_dead_records(cold_bytes, options.layout.record_bytes(Part::kPublic));
  return need;
}

DiskNeed most_disk(const StoreOptions& options, const SlotUse& use) {
  const SlotCounts slots = most_slots(options, use);
  return disk_for(options, use, slots, cold_bytes_of(options, use, slots));
}

}  // namespace shoal
