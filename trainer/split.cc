#include "trainer/split.h"

#include <fmt/format.h>

#include <vector>

#include "store/error.h"

namespace shoal {

bool is_split(const Experiment& experiment, unsigned ranks) {
  const NodeId nodes = experiment.options.nodes;
  if (ranks > nodes) {
    throw Error(fmt::format("{} ranks for {} nodes; a rank needs at least one", ranks, nodes), ExitCode::kUsage);
  }
  return ranks > 1 && experiment.algorithm->records() == nodes;
}

// A model that several of a rank's nodes read comes once, so that is what is counted.
RankPartition partition_for(const Experiment& experiment, unsigned ranks) {
  std::vector<float> work(experiment.options.nodes);
  for (NodeId node = 0; node < experiment.options.nodes; ++node) {
    work[node] = static_cast<float>(experiment.algorithm->expected_work(node));
  }
  return split_over_ranks(experiment.graph(), work, ranks, experiment.options.seed, experiment.order,
                          Fewest::kRemoteReads);
}

}  // namespace shoal
