// How a run begins: what part of it is this rank's, its store, new or opened or filled from those of other ranks.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>
#include <string>

#include "store/error.h"
#include "store/size_text.h"
#include "trainer/checkpoint_note.h"
#include "trainer/random.h"
#include "trainer/training.h"

namespace shoal {
namespace {

std::vector<NodeId> sample_of_nodes(const TrainOptions& options, NodeId records) {
  const NodeId count = std::min(options.eval_nodes, records);
  RandomStream random(options.seed, Purpose::kEvaluation);
  std::set<NodeId> chosen;
  while (chosen.size() < count) chosen.insert(random.below(records));
  return {chosen.begin(), chosen.end()};
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::filesystem::path log_of(const TrainOptions& options, const Communicator& ranks) {
  if (options.log_dir.empty()) return {};
  return options.log_dir / fmt::format("rank-{}.log", ranks.rank());
}

Team team_of(Communicator& ranks) {
  if (ranks.alone()) return {};
  return {ranks.rank(), ranks.size(), [&ranks](std::span<std::int64_t> values) { ranks.sum(values); }};
}

// The same for every run with the same graph, ranks and seed. All nodes of an algorithm act equally often so far, so
// all weigh the same; and a model that several of a rank's nodes read comes once, so that is what is counted.
RankPartition partition_for(const Experiment& experiment, std::size_t ranks) {
  return split_over_ranks(experiment.graph(), {}, static_cast<unsigned>(ranks), experiment.options.seed,
                          experiment.order, Fewest::kRemoteReads);
}

Share share_of(const Experiment& experiment, const Communicator& ranks, PartitionFigures& printed) {
  const TrainOptions& options = experiment.options;
  if (ranks.size() > options.nodes) {
    throw Error(fmt::format("{} ranks for {} nodes; a rank needs at least one", ranks.size(), options.nodes),
                ExitCode::kUsage);
  }
  if (ranks.alone() || experiment.algorithm->records() < options.nodes) return Share(experiment.algorithm->records());
  RankPartition partition = partition_for(experiment, ranks.size());
  if (ranks.first()) printed = figures(partition, experiment.graph(), options.seed);
  return Share(experiment.graph(), std::move(partition), ranks.rank());
}

}  // namespace

Training::Training(const TrainOptions& options, Communicator& ranks)
    : ranks_(ranks),
      experiment_(options, team_of(ranks)),
      options_(experiment_.options),
      share_(share_of(experiment_, ranks, partition_figures_)),
      place_(store_place(options, ranks)),
      requirements_(experiment_, share_, place_),
      progress_(options.quiet || !ranks.first() ? Talk::kQuiet : Talk::kProgress, log_of(options, ranks)),
      learning_rate_(options.lr_schedule, options.learning_rate, options.warmup_rounds, options.rounds),
      start_(Clock::now()) {}

Training::~Training() = default;

void Training::set_up() {
  const RunFiles::Start start = options_.resume      ? RunFiles::Start::kResume
                                : options_.overwrite ? RunFiles::Start::kOverwrite
                                                     : RunFiles::Start::kNew;
  if (ranks_.first()) {
    RunFiles::check(options_.out, start);
    if (options_.resume) {
      CheckpointNote::of_config(RunFiles::read_config(options_.out), options_).require_same(options_);
    }
  }
  if (!share_.whole()) {
    open_window();
  } else if (options_.device.starts_with("cuda")) {
    pin_frames();
  }
  open_store();
  if (ranks_.first()) files_ = std::make_unique<RunFiles>(options_.out, start);
  if (options_.strict) {
    for (const ModeReport& mode : store_->report().modes) {
      if (!mode.degraded()) continue;
      throw Error(fmt::format("--strict: {} is {} where {} was asked for: {}", mode.what, mode.actual, mode.requested,
                              mode.reason));
    }
  }
  if (options_.trace) trace_ = std::make_unique<Trace>();
  prepare_tensor_library(options_.intra_op);
  pipeline_ =
      std::make_unique<NodePipeline>(*store_, options_.threads, trace_.get(), prepare_worker_thread, options_.intra_op);
  const NodeLayout& layout = *experiment_.layout;
  context_ = std::make_unique<WorkerContext>(
      WorkerContext{layout, *experiment_.optimizer, experiment_.sampler.get(), workers_});
  for (unsigned i = 0; i < options_.threads; ++i) {
    workers_.push_back(std::make_unique<Worker>(*context_, experiment_.model->make_learner()));
  }
  const std::vector<std::byte> first = experiment_.first_state();
  const float* const parameters = layout.parameters(first.data());
  const std::vector<float> reference(parameters, parameters + layout.flat_size());
  population_ = std::make_unique<Population>(layout, reference);
  if (!share_.whole() && ranks_.first()) everybody_ = std::make_unique<Population>(layout, reference);
  const SlowRank& slow = options_.slow_rank;
  train_work_ = std::make_unique<TrainWork>(*experiment_.algorithm, layout, share_, workers_, *population_, progress_,
                                            store_->places(), slow.rank == ranks_.rank() ? slow.factor : 1);
  evaluate_work_ = std::make_unique<EvaluateWork>(layout, workers_, experiment_.sampler.get(), options_.eval_samples);
  evaluated_ = sample_of_nodes(options_, experiment_.algorithm->records());
  for (std::uint32_t number = 0; number < evaluated_.size(); ++number) {
    const bool here = share_.whole() ? ranks_.first() : share_.owns(evaluated_[number]);
    if (here) evaluated_here_.push_back(number);
  }

  if (moving()) move_population();
  if (options_.resume) {
    take_up_checkpoint();
  } else {
    create_population(first);
  }
  const std::vector<StorePlace> places = all_places(place_, ranks_);
  if (!ranks_.first()) return;
  // After the checkpoint's settings were found to be the same; and where there is a config.toml, all else is there.
  files_->write(kStoresFile, stores_text(places));
  files_->write("config.toml", to_toml(settings(options_)));
  if (!experiment_.network.names.empty()) files_->write("node_names.csv", names_csv());
}

// The store's memory, where other ranks can read it.
void Training::open_window() {
  StoreOptions& store = requirements_.store;
  const MemoryPlan memory = MemoryPlan::for_options(store);
  const HostReads reads =
      options_.neighbour_path == NeighbourPath::kOneSided ? HostReads::kOneSided : HostReads::kMapped;
  window_ = std::make_unique<ArenaWindow>(ranks_, NeighbourReads::head_bytes(store.nodes) + memory.arena, reads,
                                          requirements_.mapped_bytes);
  neighbours_ = std::make_unique<NeighbourReads>(
      ranks_, *window_,
      NeighbourReads::Setup{share_.guest_places(), share_.nodes_of_ranks(), experiment_.layout->state()});
  store.region = neighbours_->arena();
  store.peers = neighbours_.get();
  store.listing = neighbours_->directory();
  store.seal_public = ranks_.least(window_->reads_one_sided() ? 0 : 1) == 0;
}

void Training::open_store() {
  StoreOptions& options = requirements_.store;
  if (options_.resume) former_ = former_places();
  if (!options_.resume || moving()) {
    // What lies where the nodes are to be moved to is left from a move that was interrupted.
    if (moving()) options.overwrite = true;
    create_store();
  } else if (ranks_.first()) {
    // A checkpoint is one that all ranks have, and rank 0 makes its own last.
    store_ = StateStore::open(options);
    ranks_.broadcast(bytes_of(std::to_string(store_->checkpoint_count())));
  } else {
    options.open_epoch = std::stoull(text_of(ranks_.broadcast({})));
    store_ = StateStore::open(options);
  }
  if (neighbours_) neighbours_->connect(store_->id());
}

// All ranks have a new store, or none: what the others made would stand in the way of the next attempt.
void Training::create_store() {
  std::exception_ptr error;
  try {
    store_ = StateStore::create(requirements_.store);
  } catch (...) {
    error = std::current_exception();
  }
  std::int64_t failures = error ? 1 : 0;
  ranks_.sum(std::span(&failures, 1));
  if (failures == 0) return;
  if (!error) {
    store_.reset();
    StateStore::remove(requirements_.store);
  }
  ranks_.barrier();
  if (error) std::rethrow_exception(error);
  ranks_.barrier();  // nobody comes: the rank that failed ends all of them
}

// Where the stores of the run that is resumed are, by rank.
std::vector<StorePlace> Training::former_places() {
  const std::string text = ranks_.first() ? stores_text(read_stores(options_.out)) : std::string();
  return parse_stores(text_of(ranks_.broadcast(bytes_of(text))));
}

// The run had another number of ranks: every rank takes its nodes from the stores that had them. Nothing is lost if it
// is interrupted: until all are durable in their new places, stores.json names the old ones.
void Training::move_population() {
  std::vector<StoreOptions> former(former_.size());
  for (std::size_t rank = 0; rank < former_.size(); ++rank) {
    former[rank].directory = former_[rank].store;
    former[rank].cold_directory = former_[rank].cold;
    if (!std::filesystem::exists(former_[rank].store)) {
      throw Error(fmt::format(
          "--resume: the run had {} ranks and now has {}, so its nodes are moved; but the store of "
          "its rank {} is not there: {}. Make it readable on {}, or start {} ranks",
          former_.size(), ranks_.size(), rank, former_[rank].store.string(), ranks_.host(), former_.size()));
    }
  }
  CheckpointNote note;
  std::uint64_t epoch = 0;
  {
    const CheckpointInfo last = StateStore::checkpoints(former[0]).back();
    if (last.note.empty()) throw no_checkpoint();
    note = CheckpointNote::parse(last.note);
    epoch = last.epoch;
  }
  for (StoreOptions& options : former) options.open_epoch = epoch;
  note.require_same(options_);

  const bool whole = experiment_.algorithm->records() < options_.nodes || former_.size() == 1;
  const Share before = whole ? Share(experiment_.algorithm->records())
                             : Share(experiment_.graph(), partition_for(experiment_, former_.size()), 0);
  progress_.begin(fmt::format("moving nodes from {} to {} ranks", former_.size(), ranks_.size()), requirements_.records,
                  0, 0);
  {
    MoveWork work(*experiment_.layout, share_, before, former, progress_);
    store_->plan(over_all(StepKind::kCreate));
    add_to_totals(pipeline_->run(work));
  }
  progress_.end();
  rounds_done_ = note.rounds_done;
  checkpoint();
  const std::vector<StorePlace> places = all_places(place_, ranks_);
  if (ranks_.first()) {
    files_->write(kStoresFile, stores_text(places));
    for (const StoreOptions& options : former) {
      StateStore::remove(options);
      // A rank's own folder goes with it; what else lies there stays.
      std::error_code not_empty;
      if (former.size() > 1) std::filesystem::remove(options.directory / "lock", not_empty);
      if (former.size() > 1) std::filesystem::remove(options.directory, not_empty);
    }
  }
  ranks_.barrier();
}

// A device copies from and to the frames by itself then; without it each copy would go through the driver's buffers.
void Training::pin_frames() {
  if (options_.store_io == IoEngine::kMapped) return;  // records are used where the kernel keeps them
  StoreOptions& store = requirements_.store;
  const MemoryPlan memory = MemoryPlan::for_options(store);
  const std::uint64_t others = requirements_.trainer_bytes + memory.total() - memory.arena;
  const std::uint64_t bytes = PinnedMemory::within(memory.arena, requirements_.ram_bytes - others);
  const std::uint64_t least = memory.least_public * store.layout.record_bytes(Part::kPublic) +
                              memory.least_private * store.layout.record_bytes(Part::kPrivate);
  if (bytes < least) {
    progress_.say(
        fmt::format("{}: copies are slow, because --ram {} leaves no room to pin the frames; give twice as much",
                    options_.device, size_text(options_.ram_bytes)));
    return;
  }
  frames_ = PinnedMemory(bytes);
  store.region = frames_.bytes();
}

void Training::create_population(const std::vector<std::byte>& first) {
  progress_.begin("creating nodes", requirements_.records, 0, 0);
  CreateWork work(*experiment_.model, *experiment_.layout, share_, options_.seed,
                  options_.init == InitialModels::kSame ? &first : nullptr, *population_, progress_);
  store_->plan(over_all(StepKind::kCreate));
  add_to_totals(pipeline_->run(work));
  progress_.end();
}

Error Training::no_checkpoint() const {
  return Error(
      fmt::format("--resume: the run in {} was ended before its first checkpoint; start it again with "
                  "--overwrite",
                  options_.out.string()));
}

void Training::take_up_checkpoint() {
  if (store_->checkpoint_note().empty()) throw no_checkpoint();
  const CheckpointNote note = CheckpointNote::parse(store_->checkpoint_note());
  note.require_same(options_);
  if (note.rounds_done > options_.rounds) {
    throw Error(fmt::format("--rounds {}: the checkpoint has {} rounds already", options_.rounds, note.rounds_done),
                ExitCode::kUsage);
  }
  first_round_ = next_round_ = rounds_done_ = checkpointed_ = note.rounds_done;
  for (std::uint64_t round = 0; round < first_round_; ++round) share_.localize(experiment_.algorithm->plan(round));
  const nlohmann::json last = files_ ? files_->keep_metrics_before(first_round_) : nlohmann::json();
  if (!experiment_.algorithm->all_act() || first_round_ == options_.rounds) inspect(population_.get());
  if (first_round_ == options_.rounds && last.is_object()) {
    // Nothing is left to train: the figures are those of the last round.
    if (last["loss"].is_number()) loss_ = last["loss"].get<double>();
    if (last.contains("accuracy")) evaluation_ = last["accuracy"];
    if (last["consensus_distance"].is_number()) consensus_distance_ = last["consensus_distance"].get<double>();
  }
}

}  // namespace shoal
