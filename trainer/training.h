// A run from start to end: make or open the store, train round after round, watch, checkpoint, sum up.
//
// Every rank runs one, with its share of the nodes; they meet at the end of each round. Rank 0 writes the results.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "comm/arena_window.h"
#include "comm/communicator.h"
#include "comm/neighbour_reads.h"
#include "pipeline/node_pipeline.h"
#include "pipeline/trace.h"
#include "store/error.h"
#include "store/state_store.h"
#include "trainer/experiment.h"
#include "trainer/pinned_memory.h"
#include "trainer/population.h"
#include "trainer/progress.h"
#include "trainer/requirements.h"
#include "trainer/run_files.h"
#include "trainer/share.h"
#include "trainer/step_work.h"
#include "trainer/store_place.h"

namespace shoal {

// Set by a signal handler: the run makes a checkpoint after the round it is in, and ends.
extern std::atomic<bool> stop_requested;

struct TrainingResult {
  nlohmann::json summary;
  bool stopped = false;  // by stop_requested, with rounds left
};

class Training {
 public:
  Training(const TrainOptions& options, Communicator& ranks);
  ~Training();

  const Experiment& experiment() const { return experiment_; }
  const Requirements& requirements() const { return requirements_; }
  TrainingResult run();             // the result is rank 0's; the others' summary is empty
  std::string description() const;  // of what would run, for people

 private:
  // What the store is asked to do next, known one ahead so that it can read ahead.
  struct Item {
    enum class Kind { kTrain, kEvaluate, kInspect };
    Kind kind = Kind::kTrain;
    std::uint64_t round = 0;
    RoundPlan plan;
    std::vector<Version> guest_versions;
  };
  // A round's figures over all ranks, on rank 0.
  struct Tally {
    RoundFigures figures;
    RoundReport report;
    NeighbourFigures neighbours;
  };

  bool alone() const { return ranks_.alone(); }
  bool free() const { return options_.pace == Pace::kFree && !alone(); }
  bool together(std::uint64_t round) const { return !free() || round + 1 == options_.rounds; }
  TrainingResult run_all();
  void check_everywhere();
  void set_up();
  void open_window();
  void open_store();
  void create_store();
  std::vector<StorePlace> former_places();
  bool moving() const { return !former_.empty() && former_.size() != ranks_.size(); }
  void move_population();
  Error no_checkpoint() const;
  void pin_frames();
  void create_population(const std::vector<std::byte>& first);
  void take_up_checkpoint();
  void say_what_runs();
  void plan_ahead();
  bool evaluation_due(std::uint64_t round) const;
  void train(const Item& item);
  void meet();
  void keep_pace(std::uint64_t round);
  Tally add_up(const RoundFigures& figures, const RoundReport& report, const NeighbourFigures& neighbours);
  void evaluate(const Item& item);
  // Every record, for the hash and nodes.csv; `population`, when given, takes up every node.
  void inspect(Population* population);
  void finish_round(std::uint64_t round);
  void checkpoint();
  const Population& all_nodes() const { return everybody_ ? *everybody_ : *population_; }
  void add_to_totals(const RoundReport& report);
  std::shared_ptr<const AccessPlan> over_all(StepKind kind) const;

  // training_results.cc
  nlohmann::json summary();
  nlohmann::json of_this_rank() const;
  void gather_lines(const InspectWork& inspection);
  std::string nodes_csv() const;
  std::string names_csv() const;

  Communicator& ranks_;
  Experiment experiment_;
  const TrainOptions& options_;
  PartitionFigures partition_figures_;  // of several ranks
  Share share_;
  const StorePlace place_;
  Requirements requirements_;
  GraphStatistics statistics_;
  Progress progress_;
  std::unique_ptr<RunFiles> files_;
  std::unique_ptr<Trace> trace_;
  std::unique_ptr<Population> population_;  // this rank's
  std::unique_ptr<Population> everybody_;   // all ranks', on rank 0 of several
  PinnedMemory frames_;                     // the store's, when a device computes
  std::unique_ptr<ArenaWindow> window_;     // these two: of several ranks
  std::unique_ptr<NeighbourReads> neighbours_;
  std::unique_ptr<StateStore> store_;
  std::unique_ptr<NodePipeline> pipeline_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<WorkerContext> context_;
  std::unique_ptr<TrainWork> train_work_;
  std::unique_ptr<EvaluateWork> evaluate_work_;
  LearningRate learning_rate_;
  std::vector<NodeId> evaluated_;                  // sampled nodes, ascending
  std::vector<std::uint32_t> evaluated_here_;      // of those, the numbers of this rank's
  std::vector<InspectWork::NodeLine> node_lines_;  // of all nodes, on rank 0
  StateHash state_hash_;
  std::atomic<bool> stopping_{false};  // some rank was asked to stop

  std::vector<StorePlace> former_;  // of the run that is resumed, by rank
  std::uint64_t first_round_ = 0;
  std::uint64_t rounds_done_ = 0;
  std::uint64_t checkpointed_ = 0;  // rounds, in the last checkpoint
  std::deque<Item> items_;          // planned; the front one is next
  std::uint64_t next_round_ = 0;    // to be planned
  bool evaluate_next_ = false;
  bool inspection_planned_ = false;

  nlohmann::json line_;        // of metrics.jsonl, for the round that was trained last
  nlohmann::json evaluation_;  // the last one; null before the first
  double loss_ = std::numeric_limits<double>::quiet_NaN();
  double consensus_distance_ = 0;
  bool warned_ = false;
  struct Totals {
    std::uint64_t node_steps = 0;
    std::uint64_t bytes_read = 0;
    std::uint64_t bytes_written = 0;
    std::uint64_t lower_bound = 0;
    std::uint64_t remote_lower_bound = 0;
    NeighbourFigures neighbours;
    double training_seconds = 0;
    double checkpoint_seconds = 0;
    double evaluation_seconds = 0;
    RoundTimes times;
  } totals_;
  Clock::time_point start_;
};

}  // namespace shoal
