// Which nodes' models are evaluated: a sample, ascending, that depends on the seed alone.
#pragma once

#include <vector>

#include "store/types.h"

namespace shoal {

struct TrainOptions;

std::vector<NodeId> sample_of_nodes(const TrainOptions& options, NodeId records);

}  // namespace shoal
