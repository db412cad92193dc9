// Which node is which rank's: the same work for each, as far as the algorithm can tell beforehand. The same for every
// run with the same graph, ranks, algorithm, local steps and seed, and for whoever plans one.
#pragma once

#include "trainer/experiment.h"
#include "trainer/rank_partition.h"

namespace shoal {

// Whether each rank has nodes of its own; otherwise all of them keep all records. A usage Error for more ranks than
// nodes.
bool is_split(const Experiment& experiment, unsigned ranks);

RankPartition partition_for(const Experiment& experiment, unsigned ranks);

}  // namespace shoal
