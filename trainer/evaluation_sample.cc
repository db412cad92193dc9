#include "trainer/evaluation_sample.h"

#include <algorithm>
#include <set>

#include "trainer/random.h"
#include "trainer/train_options.h"

namespace shoal {

std::vector<NodeId> sample_of_nodes(const TrainOptions& options, NodeId records) {
  const NodeId count = std::min(options.eval_nodes, records);
  RandomStream random(options.seed, Purpose::kEvaluation);
  std::set<NodeId> chosen;
  while (chosen.size() < count) chosen.insert(random.below(records));
  return {chosen.begin(), chosen.end()};
}

}  // namespace shoal
