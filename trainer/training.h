// A run from start to end: make or open the store, train round after round, watch, checkpoint, sum up.
//
// Every rank runs one, with its share of the nodes; they meet at the end of each round. Rank 0 writes the results.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "comm/arena_window.h"
#include "comm/communicator.h"
#include "comm/neighbour_reads.h"
#include "pipeline/node_pipeline.h"
#include "pipeline/trace.h"
#include "store/error.h"
#include "store/state_store.h"
#include "trainer/checkpoint_note.h"
#include "trainer/experiment.h"
#include "trainer/found_store.h"
#include "trainer/host_registration.h"
#include "trainer/pinned_memory.h"
#include "trainer/population.h"
#include "trainer/progress.h"
#include "trainer/requirements.h"
#include "trainer/run_files.h"
#include "trainer/run_stores.h"
#include "trainer/share.h"
#include "trainer/step_work.h"
#include "trainer/store_place.h"

namespace shoal {

// The error with the name of the rank that has it, if there are several.
Error with_rank(const std::exception& error, const Communicator& ranks);

struct TrainingResult {
  nlohmann::json summary;
  bool stopped = false;  // because it was asked to (stop_signal.h), with rounds left; then:
  std::uint64_t rounds_done = 0;
  std::string checkpoint;  // where it is, for people
};

class Training {
 public:
  // `device_hook`: for tests, see StoreOptions.
  Training(const TrainOptions& options, Communicator& ranks, decltype(StoreOptions::device_hook) device_hook = {});
  ~Training();

  TrainingResult run();  // the result is rank 0's; the others' summary is empty

 private:
  // What the store is asked to do next, known one ahead so that it can read ahead.
  struct Item {
    enum class Kind { kTrain, kEvaluate, kInspect };
    Kind kind = Kind::kTrain;
    std::uint64_t round = 0;
    RoundPlan plan;
    std::vector<Version> guest_versions;
    std::uint64_t own_steps = 0;  // node-steps of this rank, and of all
    std::uint64_t all_steps = 0;
  };
  // A round's figures over all ranks, on rank 0.
  struct Tally {
    RoundFigures figures;
    RoundReport report;
    NeighbourFigures neighbours;
    std::uint64_t checkpoint_bytes = 0;  // written since the round before
    std::uint64_t neighbour_reads = 0;
    std::uint64_t guest_reads = 0;  // of those: of other ranks' nodes
  };

  bool alone() const { return ranks_.alone(); }
  bool free() const { return options_.pace == Pace::kFree && !alone(); }
  bool together(std::uint64_t round) const { return !free() || round + 1 == options_.rounds; }
  TrainingResult run_all();
  void end_all_ranks(const std::exception_ptr& error);
  void check_everywhere();
  void set_up();
  void start_trace();
  void open_window();
  void require_modes();
  void make_workers(const std::vector<std::byte>& first);
  void pin_frames();
  void create_population(const std::vector<std::byte>& first);
  CheckpointNote note(std::uint64_t rounds_done) const;
  void take_up_checkpoint();
  nlohmann::json continue_metrics();
  std::string description() const;  // of what runs, for people
  void say_what_runs();
  void say_degraded_modes();
  void plan_ahead();
  bool evaluation_due(std::uint64_t round) const;
  void train(const Item& item);
  void meet();
  void keep_pace(std::uint64_t round);
  double wait_for_others(std::uint64_t round, const std::function<void()>& wait);
  Tally add_up(const Tally& own);
  void take_up_everybody();
  void evaluate(const Item& item);
  // Every record, for the hash and nodes.csv; `population`, when given, takes up every node.
  void inspect(Population* population);
  void finish_round(std::uint64_t round);
  void checkpoint();
  const Population& all_nodes() const { return everybody_ ? *everybody_ : *population_; }
  std::shared_ptr<const AccessPlan> over_all(StepKind kind) const;

  // training_stores.cc. The first of these change nothing.
  void choose_stores();
  std::optional<RunStores> listed_stores();
  void choose_new_store(const RunStores& listed);
  void choose_store_of(const StorePlace* listed);
  void choose_move(const RunStores& listed);
  bool moving() const { return !former_.empty(); }
  void agree_on_checkpoint(const std::vector<FoundStore>& found, const Share& share);
  Error no_checkpoint() const;
  void take_stores();
  void open_files();
  void write_stores(const RunStores& stores);
  void on_all_ranks(const std::function<void()>& work);
  void remember_new_folders(std::filesystem::path folder);
  void remove_new_folders();
  void undo_start();
  void remove_stores(const std::vector<StorePlace>& places);
  void move_nodes();
  void leave_former_stores();
  void discard_stores();

  // training_results.cc
  nlohmann::json summary();
  nlohmann::json of_this_rank() const;
  void gather_lines(const InspectWork& inspection);
  Trace::Report trace_report();
  void write_trace();
  std::string nodes_csv() const;
  std::string names_csv() const;

  Communicator& ranks_;
  Experiment experiment_;
  const TrainOptions& options_;
  PartitionFigures partition_figures_;  // of several ranks
  Share share_;
  StorePlace place_;  // of this rank
  Requirements requirements_;
  const std::map<std::string, std::string> contents_;  // content_hashes()
  const std::string owners_;                           // owners_hash()
  GraphStatistics statistics_;
  Progress progress_;
  std::unique_ptr<RunFiles> files_;
  std::unique_ptr<Trace> trace_;
  std::unique_ptr<Population> population_;  // this rank's
  std::unique_ptr<Population> everybody_;   // all ranks', on rank 0 of several
  PinnedMemory frames_;                     // the store's, when a device computes for one rank
  std::unique_ptr<ArenaWindow> window_;     // these three: of several ranks
  HostRegistration registered_;             // of the window, when a device computes
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
  std::atomic<bool> started_{false};   // others wait for what this rank's store does

  // How the run begins.
  bool had_run_ = false;                 // that is resumed, in OUT
  std::vector<StorePlace> places_;       // of all ranks
  std::vector<StorePlace> obsolete_;     // to be deleted first
  std::vector<StorePlace> former_;       // of the run that is resumed, where its number of ranks was another
  std::unique_ptr<Share> former_share_;  // and which of them has which node
  std::uint64_t epoch_ = 0;              // of the checkpoint that is resumed
  std::filesystem::path former_out_;  // on rank 0: of the run that is resumed, where its results are in another folder
  bool made_store_ = false;           // and not yet worth keeping
  std::vector<std::filesystem::path> new_folders_;

  std::uint64_t first_round_ = 0;
  std::uint64_t rounds_done_ = 0;
  std::optional<std::uint64_t> checkpointed_;  // rounds, in the last checkpoint
  std::deque<Item> items_;                     // planned; the front one is next
  std::uint64_t next_round_ = 0;               // to be planned
  bool evaluate_next_ = false;
  bool inspection_planned_ = false;

  nlohmann::json line_;        // of metrics.jsonl, for the round that was trained last
  nlohmann::json evaluation_;  // the last one; null before the first
  double loss_ = std::numeric_limits<double>::quiet_NaN();
  double consensus_distance_ = 0;
  std::uint64_t checkpoint_bytes_ = 0;  // written since the last line of metrics.jsonl
  std::string warning_;                 // the first of the run
  struct Totals {
    std::uint64_t node_steps = 0;
    std::uint64_t checkpoints = 0;
    std::uint64_t checkpoint_bytes = 0;
    std::uint64_t lower_bound = 0;
    std::uint64_t remote_lower_bound = 0;
    std::uint64_t rounds_held_back = 0;  // by --max-lag
    NeighbourFigures neighbours;
    double training_seconds = 0;
    double communication_cpu_seconds = 0;  // meanwhile
    double checkpoint_seconds = 0;
    double evaluation_seconds = 0;
    RoundTimes times;
  } totals_;
  Clock::time_point start_;
};

}  // namespace shoal
