// The streaming loop: fetch -> mix -> compute -> write back, as a oneTBB flow graph fed by the store.
//
// A node enters when the store has its data in RAM; workers never wait for a disk. How many are under way is bounded by
// the store's RAM, which is all the back-pressure there is. The first error of any stage ends the round: what is
// under way is given up, and run() throws that error.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "pipeline/trace.h"
#include "store/state_store.h"

namespace shoal {

// What is done with a node once it is there. Called from several workers at once, each with its own number below
// NodePipeline::threads(); both may throw.
class StepWork {
 public:
  virtual ~StepWork() = default;
  virtual void mix(NodeLease& lease, unsigned worker) = 0;
  virtual void compute(NodeLease& lease, unsigned worker) = 0;
};

// Seconds of one round, per worker where workers are meant.
struct RoundTimes {
  double wall = 0;
  double mix = 0;
  double compute = 0;
  double waiting_for_store = 0;       // workers without a node to work on
  double waiting_for_write_back = 0;  // of those, the store's frames were all waiting to be written
  double waiting_for_neighbours = 0;  // likewise: for other ranks' records, and for their round to end
  double waiting_for_compute = 0;     // seconds in which at least one node was ready and no worker free
};

class NodePipeline {
 public:
  // `trace` may be null. `start_worker` runs once on every thread that will do work.
  NodePipeline(StateStore& store, unsigned threads, Trace* trace, void (*start_worker)(unsigned intra_op) = nullptr,
               unsigned intra_op = 1);
  ~NodePipeline();

  unsigned threads() const;
  // Runs the store's next planned round. `before_end` is called when all its nodes are done here, and the new versions
  // are not visible yet.
  RoundReport run(StepWork& work, const std::function<void()>& before_end = {});
  const RoundTimes& times() const;  // of the last round

  // The calling worker's number; also inside TBB loops that a stage starts.
  static unsigned worker();

 private:
  class Flow;
  std::unique_ptr<Flow> flow_;
};

}  // namespace shoal
