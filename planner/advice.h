// What to change: the RAM that is worth having, threads and ranks, and what would make a run fit that does not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/run_plan.h"

namespace shoal {

struct Advice {
  std::optional<std::uint64_t> smallest_fast_ram;  // no loss of speed; needs a profile
  std::uint64_t most_useful_ram = 0;               // beyond it nothing improves
  unsigned threads = 1;                            // of a rank
  unsigned ranks = 1;
  std::vector<std::string> lines;    // for people
  std::vector<std::string> changes;  // each, tried, makes it fit; empty when it does
};

Advice advise(const Planner& planner, const RunPlan& plan);

}  // namespace shoal
