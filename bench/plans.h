// The access plans of the benchmark's rounds. Nodes act in id order; the graph is seeded and fixed for a run, as it is
// in training. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "bench/verb.h"
#include "store/access_plan.h"
#include "store/state_layout.h"

namespace shoal::bench {

class Plans {
 public:
  Plans(NodeId nodes, std::size_t degree, std::uint64_t seed) : nodes_(nodes), degree_(degree), seed_(seed) {}

  // `round` tells random-read rounds apart; all other verbs have one plan.
  std::shared_ptr<const AccessPlan> plan(Verb verb, std::uint64_t round);

 private:
  AccessPlan make(Verb verb, std::uint64_t round) const;

  NodeId nodes_;
  std::size_t degree_;
  std::uint64_t seed_;
  std::map<Verb, std::shared_ptr<const AccessPlan>> fixed_;
};

// Bytes of payload that a round of the plan asks to be read and written, each use counted.
std::uint64_t logical_bytes(const AccessPlan& plan, const StateLayout& layout);

}  // namespace shoal::bench
