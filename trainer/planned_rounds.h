// The rounds of one rank as the planner rehearses them.
#pragma once

#include <memory>

#include "planner/run_description.h"
#include "trainer/experiment.h"
#include "trainer/share.h"

namespace shoal {

// One rank of several, and what of the run is its.
struct RankOfRun {
  unsigned rank = 0;
  unsigned ranks = 1;
  std::shared_ptr<const Share> share;
};

Schedule planned_rounds(const std::shared_ptr<const Experiment>& experiment, const RankOfRun& rank);

}  // namespace shoal
