// Two places for every node's public record, for engines without versions of their own: the one that others read in
// this round, and the one that is written.
#pragma once

#include <cstdint>
#include <vector>

#include "store/access_plan.h"

namespace shoal::bench {

class Generations {
 public:
  explicit Generations(NodeId nodes) : current_(nodes, 0) {}

  unsigned current(NodeId node) const { return current_[node]; }
  unsigned next(NodeId node) const { return current_[node] ^ 1U; }

  void end_round(const AccessPlan& plan) {
    for (std::size_t step = 0; step < plan.size(); ++step) {
      if (writes(plan.kind(step))) current_[plan.node(step)] ^= 1U;
    }
  }

 private:
  std::vector<std::uint8_t> current_;
};

}  // namespace shoal::bench
