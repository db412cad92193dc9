// A run from start to end: make or open the store, train round after round, watch, checkpoint, sum up.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "pipeline/node_pipeline.h"
#include "pipeline/trace.h"
#include "store/state_store.h"
#include "trainer/experiment.h"
#include "trainer/pinned_memory.h"
#include "trainer/population.h"
#include "trainer/progress.h"
#include "trainer/requirements.h"
#include "trainer/run_files.h"
#include "trainer/step_work.h"

namespace shoal {

// Set by a signal handler: the run makes a checkpoint after the round it is in, and ends.
extern std::atomic<bool> stop_requested;

struct TrainingResult {
  nlohmann::json summary;
  bool stopped = false;  // by stop_requested, with rounds left
};

class Training {
 public:
  explicit Training(const TrainOptions& options);
  ~Training();

  const Experiment& experiment() const { return experiment_; }
  const Requirements& requirements() const { return requirements_; }
  TrainingResult run();

 private:
  // What the store is asked to do next, known one ahead so that it can read ahead.
  struct Item {
    enum class Kind { kTrain, kEvaluate, kInspect };
    Kind kind = Kind::kTrain;
    std::uint64_t round = 0;
    RoundPlan plan;
  };

  void set_up();
  void pin_frames();
  void create_population(const std::vector<std::byte>& first);
  void take_up_checkpoint();
  void say_what_runs();
  void plan_ahead();
  bool evaluation_due(std::uint64_t round) const;
  void train(const Item& item);
  void evaluate(const Item& item);
  // Every record, for the hash and nodes.csv; `population`, when given, takes up every node.
  std::unique_ptr<InspectWork> inspect(Population* population);
  void finish_round(std::uint64_t round);
  void checkpoint();
  void add_to_totals(const RoundReport& report);
  std::shared_ptr<const AccessPlan> over_all(StepKind kind) const;

  // training_results.cc
  nlohmann::json summary(const InspectWork& inspection);
  std::string nodes_csv(const InspectWork& inspection) const;
  std::string names_csv() const;

  Experiment experiment_;
  const TrainOptions& options_;
  Requirements requirements_;
  GraphStatistics statistics_;
  Progress progress_;
  std::unique_ptr<RunFiles> files_;
  std::unique_ptr<Trace> trace_;
  std::unique_ptr<Population> population_;
  PinnedMemory frames_;  // the store's, when a device computes
  std::unique_ptr<StateStore> store_;
  std::unique_ptr<NodePipeline> pipeline_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<WorkerContext> context_;
  std::unique_ptr<TrainWork> train_work_;
  std::unique_ptr<EvaluateWork> evaluate_work_;
  LearningRate learning_rate_;
  std::vector<NodeId> evaluated_;  // sampled nodes, ascending

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
    double training_seconds = 0;
    double checkpoint_seconds = 0;
    double evaluation_seconds = 0;
    RoundTimes times;
  } totals_;
  Clock::time_point start_;
};

}  // namespace shoal
