// How much disk a store takes, known before anything is written.
//
// Slab files grow in steps, so what they take follows from the slots that are in use at once. Of those there is a bound
// here, which takes no time; a rehearsal (store_rehearsal.h) counts them.
#pragma once

#include <array>
#include <cstdint>

#include "store/store_options.h"
#include "store/types.h"

namespace shoal {

using SlotCounts = std::array<std::uint64_t, kPartCount>;

struct DiskNeed {
  std::uint64_t store = 0;  // in the store's folder: slabs and the slot table
  std::uint64_t cold = 0;   // in the cold tier's: records beyond warm_bytes, checkpoints' slot tables, RocksDB's own
  std::uint64_t total() const { return store + cold; }
  DiskNeed& operator+=(const DiskNeed& other);
};

// What of a run decides how many slots it uses.
struct SlotUse {
  bool in_ram = false;    // rounds touch no disk
  bool in_place = false;  // records are used in their slots: all of them have one
  // Checkpoints that are taken up or made, those that a signal asks for left out. From two on, one is kept while newer
  // records are written.
  std::uint64_t checkpoints = 0;
};

// Whether the store will use its records in their slots.
bool uses_in_place(const StoreOptions& options);

// Slots in use at once if all records are in slots: never fewer than there will be.
SlotCounts most_slots(const StoreOptions& options, const SlotUse& use);
// Of the records in so many slots, those that are beyond warm_bytes.
std::uint64_t cold_bytes_of(const StoreOptions& options, const SlotUse& use, const SlotCounts& slots);
// What slab files that have held so many slots at once take.
std::uint64_t slab_bytes_for(const StoreOptions& options, const SlotUse& use, const SlotCounts& slots);
// All that is on disk when so many slots were in use, and records of so many bytes in the cold tier; never less than
// there will be.
DiskNeed disk_for(const StoreOptions& options, const SlotUse& use, const SlotCounts& slots, std::uint64_t cold_bytes);
// The bound.
DiskNeed most_disk(const StoreOptions& options, const SlotUse& use);

}  // namespace shoal
