#include "store/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/access_plan.h"
#include "store/cold_tier.h"
#include "store/error.h"
#include "store/frame_cache.h"
#include "store/size_text.h"
#include "store/slab.h"
#include "store/slot_table.h"
#include "store/store_engine.h"
#include "store/traffic_bound.h"
#include "store/use_index.h"

namespace shoal {
namespace {

constexpr std::uint64_t kMostFlights = 64;
// The ring, the request queue, and what the C++ library keeps around them; measured at well below this.
constexpr std::uint64_t kIoBytes = 1 << 20;
// Deep enough for a queue of 16 records of a LeNet-5 and what the workers hold. Where it is a small part of the RAM,
// more, which lets the engine rest while the workers use it up. Rounds of a run of LeNet-5 with a sixteenth of its
// state in RAM, odd ones with the second, even ones with the first, 14 of each: 3 % shorter with 24 MiB than with 18, 1
// % with 36 than with 24. Where it costs next to nothing, deeper: file systems pause now and then for tens of
// milliseconds, when they are filled for the first time.
constexpr std::uint64_t kPrefetchBytes = 12 << 20;
constexpr std::uint64_t kRestfulPrefetchBytes = 32 << 20;
constexpr std::uint64_t kMostPrefetchBytes = 64 << 20;

constexpr std::uint64_t kMostColdBytes = 64 << 20;

std::uint64_t slots_at_most(Part part, NodeId nodes) {
  // The current version, the next one and a checkpoint's; private records have no next.
  return std::uint64_t{nodes} * (part == Part::kPublic ? 3 : 2);
}

// The plan with the least of everything, and ways to give more.
class Division {
 public:
  explicit Division(const StoreOptions& options) : options_(options) {
    const NodeId nodes = options.nodes;
    const NodeId known = options.nodes + options.guests;
    const std::uint64_t reads_per_round = options.max_reads_per_round != 0
                                              ? options.max_reads_per_round
                                              : nodes * std::uint64_t{options.max_reads_per_step};
    plan_.serving = options.serving_frames;
    // With its own, current and next.
    plan_.least_public = static_cast<std::uint32_t>(options.max_reads_per_step + 2) + plan_.serving;
    plan_.cold = options.cold_memory_bytes != 0 ? options.cold_memory_bytes : kColdMinimumBytes;
    // A plan and its index for every round that is known: kind, node, end and own use per step; node and use per read.
    plan_.plans = options.rounds_ahead *
                  (UseIndex::bytes_for(known, nodes, reads_per_round) + AccessPlan::bytes_for(nodes, reads_per_round) +
                   (plan_.serving > 0 ? nodes * sizeof(NodeId) : 0));
    fixed_tables_ = SlotTable::bytes_for(nodes) + TrafficBound::bytes_for(nodes) + StoreEngine::kBytesPerNode * nodes +
                    StoreEngine::kBytesPerGuest * options.guests + FrameCache::bytes_for(known, 0);
    if (plan_.serving > 0) fixed_tables_ += nodes * sizeof(DirectoryEntry);
    for (const Part part : kParts) fixed_tables_ += Slab::kBytesPerSlot * slots_at_most(part, nodes);
    read_ahead(kPrefetchBytes);
    set_arena(least_arena());
  }

  const MemoryPlan& plan() const { return plan_; }

  // RAM that is less than all of the population needs.
  void spend(std::uint64_t ram) {
    if (ram <= plan_.total()) return;
    const std::uint64_t spare = ram - plan_.total();
    const std::uint64_t restful = std::clamp(spare / 7, kPrefetchBytes, kRestfulPrefetchBytes);
    read_ahead(std::clamp(spare / 32, restful, kMostPrefetchBytes));
    widen_cold(ram, (ram - plan_.total()) / 2);
    set_arena(ram - plan_.total() + plan_.arena);
    // The frame table has grown with the arena. Taking that much off again settles it, and never goes below the least.
    if (plan_.total() > ram) set_arena(plan_.arena - round_up(plan_.total() - ram, kBlockBytes));
  }

  // All of it, and as much read-ahead and RocksDB as go with a population of its size.
  void hold_everything() {
    const std::uint64_t state = options_.nodes * (public_bytes() + private_bytes());
    read_ahead(std::clamp(state / 32, kPrefetchBytes, kMostPrefetchBytes));
    set_arena(std::max(plan_.all_public * public_bytes() + plan_.all_private * private_bytes(), least_arena()));
    widen_cold(plan_.total(), kMostColdBytes);
    plan_.resident = true;
  }

 private:
  std::uint64_t public_bytes() const { return options_.layout.record_bytes(Part::kPublic); }
  std::uint64_t private_bytes() const { return options_.layout.record_bytes(Part::kPrivate); }
  std::uint64_t least_arena() const {
    return plan_.least_public * public_bytes() + plan_.least_private * private_bytes();
  }

  void read_ahead(std::uint64_t bytes) {
    // However large the records are: a step for every worker, and one that is read meanwhile.
    const std::uint64_t steps = std::max<std::uint64_t>(2, std::uint64_t{options_.workers} + 1);
    plan_.prefetch = options_.prefetch_bytes != 0 ? options_.prefetch_bytes
                                                  : std::max(bytes, steps * (2 * public_bytes() + private_bytes()));
    const std::uint64_t objects = options_.max_reads_per_step + 3;
    const std::uint64_t flights = std::min({plan_.prefetch / (public_bytes() + private_bytes()),
                                            (std::uint64_t{1} << 20) / objects, std::uint64_t{options_.nodes}});
    plan_.flights = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(flights, 2, std::max(steps, kMostFlights)));
    plan_.io = kIoBytes + (plan_.flights + plan_.serving) * StoreEngine::bytes_per_flight(options_.max_reads_per_step);
    // Rounds whose old versions are not known may keep one of every record.
    const std::uint64_t old = options_.old_versions.value_or(std::uint64_t{options_.nodes} + options_.guests);
    plan_.all_public = options_.nodes + old + plan_.flights + plan_.serving + MemoryPlan::kSpareFrames;
    plan_.all_private = std::uint64_t{options_.nodes} + plan_.flights;
  }

  void widen_cold(std::uint64_t ram, std::uint64_t most) {
    if (options_.cold_memory_bytes != 0) return;
    plan_.cold += std::min(std::clamp(ram / 32, kColdMinimumBytes, kMostColdBytes) - kColdMinimumBytes, most);
  }

  void set_arena(std::uint64_t arena) {
    plan_.arena = arena / kBlockBytes * kBlockBytes;
    plan_.tables = fixed_tables_ + FrameCache::bytes_for(0, arena / public_bytes() + arena / private_bytes());
  }

  const StoreOptions& options_;
  MemoryPlan plan_;
  std::uint64_t fixed_tables_ = 0;
};

MemoryPlan resident_plan(const StoreOptions& options) {
  Division division(options);
  division.hold_everything();
  return division.plan();
}

}  // namespace

std::uint64_t MemoryPlan::minimum(const StoreOptions& options) { return Division(options).plan().total(); }

std::uint64_t MemoryPlan::resident_ram(const StoreOptions& options) { return resident_plan(options).total(); }

MemoryPlan MemoryPlan::for_options(const StoreOptions& options) {
  if (options.nodes == 0) throw Error("a store needs at least one node", ExitCode::kUsage);
  const std::uint64_t least = minimum(options);
  if (options.ram_bytes < least) {
    throw Error(
        fmt::format("{} of RAM is too little: {} nodes with records of {} (public) and {} (private), of which a "
                    "step reads up to {}, need at least {} ({} bytes)",
                    size_text(options.ram_bytes), options.nodes, size_text(options.layout.record_bytes(Part::kPublic)),
                    size_text(options.layout.record_bytes(Part::kPrivate)), options.max_reads_per_step,
                    size_text(least), least),
        ExitCode::kUsage);
  }
  const MemoryPlan resident = resident_plan(options);
  if (options.ram_bytes >= resident.total()) return resident;
  Division division(options);
  division.spend(options.ram_bytes);
  return division.plan();
}

}  // namespace shoal
