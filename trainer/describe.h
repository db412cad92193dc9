// A run as shoal-train would make it, told to the planner: records, RAM, schedule.
#pragma once

#include <memory>
#include <vector>

#include "planner/run_description.h"
#include "trainer/experiment.h"

namespace shoal {

// What a node's state is made of; headers and padding are not among it.
std::vector<StateItem> state_items(const Experiment& experiment);

// Makes the experiment that the options name, and again for changes that need another one; the last ones are kept,
// because sweeps ask for them again. What is described is one rank's share: partition, guests and RAM are the run's
// own.
class DescribedRun {
 public:
  explicit DescribedRun(const TrainOptions& options, unsigned ranks = 1, unsigned hosts = 1);
  RunDescription operator()(const RunChange& change);

 private:
  struct Made;
  Made& made_for(const RunChange& change);

  TrainOptions options_;
  unsigned ranks_;
  unsigned hosts_;
  std::shared_ptr<Made> whole_;  // of the options themselves
  std::shared_ptr<Made> other_;  // the last one with other nodes
  RunChange other_change_;
};

}  // namespace shoal
