// A smaller run that stands for a large one: a graph of the same kind, with RAM in proportion.
#pragma once

#include <cstdint>

#include "planner/residency.h"
#include "planner/run_description.h"

namespace shoal {

// kQuick: from a smaller sample, for questions that need many plans.
enum class Effort { kFull, kQuick };

// 0: the run is rehearsed as it is.
NodeId sample_nodes(const RunDescription& run, Effort effort);

// Gives the sample's store RAM and slabs in proportion.
void put_in_proportion(RunDescription& sample, const RunDescription& full);
// What was rehearsed on the sample, for the full run.
Residency scaled_up(const Residency& residency, const RunDescription& sample, const RunDescription& full);

// The RAM for the sample's store that makes its arena as large, for its records, as the full run's is.
std::uint64_t store_ram_in_proportion(const RunDescription& sample, const RunDescription& full);

}  // namespace shoal
