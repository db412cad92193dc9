// Changes that would make a run fit that does not. Each has been planned, and the plan fits.
#pragma once

#include <string>
#include <vector>

#include "planner/run_plan.h"

namespace shoal {

struct Proposal {
  RunChange change;
  std::string words;  // "fewer nodes: --nodes 1000"
};

// `plan` is the planner's, and does not fit.
std::vector<Proposal> proposals(const Planner& planner, const RunPlan& plan);

}  // namespace shoal
