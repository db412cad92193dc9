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
// Deep enough for a queue of 16 records of a LeNet-5 and what the workers hold; `shoal-store-bench --tune` found no
// gain beyond.
constexpr std::uint64_t kPrefetchBytes = 12 << 20;

constexpr std::uint64_t kMostColdBytes = 64 << 20;

std::uint64_t slots_at_most(Part part, NodeId nodes) {
  // The current version, the next one and a checkpoint's; private records have no next.
  return std::uint64_t{nodes} * (part == Part::kPublic ? 3 : 2);
}

MemoryPlan divide(const StoreOptions& options, std::uint64_t ram) {
  const NodeId nodes = options.nodes;
  const NodeId known = options.nodes + options.guests;
  const std::uint64_t public_bytes = options.layout.record_bytes(Part::kPublic);
  const std::uint64_t private_bytes = options.layout.record_bytes(Part::kPrivate);
  const std::uint64_t reads_per_round = options.max_reads_per_round != 0
                                            ? options.max_reads_per_round
                                            : nodes * std::uint64_t{options.max_reads_per_step};

  MemoryPlan plan;
  plan.serving = options.serving_frames;
  // With its own, current and next.
  plan.least_public = static_cast<std::uint32_t>(options.max_reads_per_step + 2) + plan.serving;
  plan.cold = options.cold_memory_bytes != 0 ? options.cold_memory_bytes : kColdMinimumBytes;
  // A plan and its index for every round that is known: kind, node, end and own use per step; node and use per read.
  plan.plans = options.rounds_ahead *
               (UseIndex::bytes_for(known, nodes, reads_per_round) + AccessPlan::bytes_for(nodes, reads_per_round) +
                (plan.serving > 0 ? nodes * sizeof(NodeId) : 0));
  plan.prefetch = options.prefetch_bytes != 0
                      ? options.prefetch_bytes
                      : std::max<std::uint64_t>(kPrefetchBytes, 2 * (2 * public_bytes + private_bytes));
  const std::uint64_t objects = options.max_reads_per_step + 3;
  plan.flights = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      std::min(plan.prefetch / (public_bytes + private_bytes), (std::uint64_t{1} << 20) / objects), 2, kMostFlights));
  plan.io = kIoBytes + (plan.flights + plan.serving) * StoreEngine::bytes_per_flight(options.max_reads_per_step);

  std::uint64_t fixed_tables = SlotTable::bytes_for(nodes) + TrafficBound::bytes_for(nodes) +
                               StoreEngine::kBytesPerNode * nodes + StoreEngine::kBytesPerGuest * options.guests +
                               FrameCache::bytes_for(known, 0);
  if (plan.serving > 0) fixed_tables += nodes * sizeof(DirectoryEntry);
  for (const Part part : kParts) fixed_tables += Slab::kBytesPerSlot * slots_at_most(part, nodes);
  const auto with_arena = [&](std::uint64_t arena) {
    plan.arena = arena / kBlockBytes * kBlockBytes;
    plan.tables = fixed_tables + FrameCache::bytes_for(0, arena / public_bytes + arena / private_bytes);
  };
  with_arena(plan.least_public * public_bytes + plan.least_private * private_bytes);
  if (ram > plan.total()) {
    if (options.cold_memory_bytes == 0) {
      const std::uint64_t wanted = std::clamp<std::uint64_t>(ram / 32, kColdMinimumBytes, kMostColdBytes);
      plan.cold += std::min(wanted - kColdMinimumBytes, (ram - plan.total()) / 2);
    }
    const std::uint64_t rest = ram - plan.total() + plan.arena;
    with_arena(rest);
    // The frame table has grown with the arena. Taking that much off again settles it, and never goes below the least.
    if (plan.total() > ram) with_arena(plan.arena - round_up(plan.total() - ram, kBlockBytes));
  }
  return plan;
}

}  // namespace

std::uint64_t MemoryPlan::minimum(const StoreOptions& options) { return divide(options, 0).total(); }

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
  return divide(options, options.ram_bytes);
}

}  // namespace shoal
