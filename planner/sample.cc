#include "planner/sample.h"

#include <algorithm>
#include <limits>

#include "planner/whole.h"
#include "store/cold_tier.h"
#include "store/frame_cache.h"
#include "store/memory_plan.h"

namespace shoal {
namespace {

// Larger runs are rehearsed on a graph of the same kind with this many nodes, and RAM in proportion.
constexpr std::uint64_t kMostRehearsed = 131'072;
constexpr std::uint64_t kSampleNodes = 16'384;
constexpr std::uint64_t kQuickSampleNodes = 8'192;
// A sample whose arena had fewer frames would be all read-ahead and no cache, so samples grow, but not without end.
constexpr std::uint64_t kLeastSampleFrames = 128;
constexpr std::uint64_t kMostGrowth = 4;

double share_of(const RunDescription& sample, const RunDescription& full) {
  return static_cast<double>(sample.records()) / static_cast<double>(full.records());
}

}  // namespace

NodeId sample_nodes(const RunDescription& run, Effort effort) {
  const std::uint64_t most = effort == Effort::kFull ? kMostRehearsed : kQuickSampleNodes;
  if (run.least_sample == 0 || (run.records() <= most && run.split_sample == 0)) return 0;
  const MemoryPlan memory = MemoryPlan::for_options(run.store);
  const double frames = static_cast<double>(memory.arena) / static_cast<double>(run.store.layout.state_bytes());
  const std::uint64_t least = effort == Effort::kFull ? kSampleNodes : kQuickSampleNodes;
  std::uint64_t nodes = least;
  while (nodes < run.least_sample) nodes *= 2;
  if (nodes > run.nodes / 2) return 0;
  while (nodes < std::min<std::uint64_t>(run.nodes / 2, kMostGrowth * least) &&
         frames * static_cast<double>(nodes) / run.nodes < kLeastSampleFrames) {
    nodes *= 2;
  }
  return static_cast<NodeId>(nodes);
}

void put_in_proportion(RunDescription& sample, const RunDescription& full) {
  StoreOptions& store = sample.store;
  store.ram_bytes = store_ram_in_proportion(sample, full);
  store.cold_memory_bytes = kColdMinimumBytes;
  if (store.warm_bytes != std::numeric_limits<std::uint64_t>::max()) {
    store.warm_bytes = whole(static_cast<double>(full.store.warm_bytes) * share_of(sample, full));
  }
}

Residency scaled_up(const Residency& residency, const RunDescription& sample, const RunDescription& full) {
  const double factor = 1 / share_of(sample, full);
  const bool guests = sample.guests() > 0;
  const double guests_factor =
      guests ? static_cast<double>(full.guests()) / static_cast<double>(sample.guests()) : factor;
  return residency.scaled(factor, guests_factor);
}

std::uint64_t store_ram_in_proportion(const RunDescription& sample, const RunDescription& full) {
  StoreOptions store = sample.store;
  store.cold_memory_bytes = kColdMinimumBytes;
  if (MemoryPlan::for_options(full.store).resident) return MemoryPlan::resident_ram(store);
  store.ram_bytes = MemoryPlan::minimum(store);
  const std::uint64_t public_bytes = store.layout.record_bytes(Part::kPublic);
  const std::uint64_t private_bytes = store.layout.record_bytes(Part::kPrivate);
  const auto with_table = [&](std::uint64_t arena) {
    return arena + FrameCache::bytes_for(0, arena / public_bytes + arena / private_bytes);
  };
  const std::uint64_t arena =
      whole(static_cast<double>(MemoryPlan::for_options(full.store).arena) * share_of(sample, full));
  const std::uint64_t least = with_table(MemoryPlan::for_options(store).arena);
  return store.ram_bytes + std::max(with_table(arena), least) - least;
}

}  // namespace shoal
