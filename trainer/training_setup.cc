// How a run begins: what part of it is this rank's, its store, new or opened or filled from those of other ranks.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>

#include "store/error.h"
#include "store/size_text.h"
#include "trainer/checkpoint_note.h"
#include "trainer/content_hash.h"
#include "trainer/evaluation_sample.h"
#include "trainer/found_store.h"
#include "trainer/split.h"
#include "trainer/training.h"

namespace shoal {
namespace {

std::filesystem::path log_of(const TrainOptions& options, const Communicator& ranks) {
  if (options.log_dir.empty()) return {};
  return options.log_dir / fmt::format("rank-{}.log", ranks.rank());
}

Team team_of(Communicator& ranks) {
  if (ranks.alone()) return {};
  return {ranks.rank(), ranks.size(), [&ranks](std::span<std::int64_t> values) { ranks.sum(values); }};
}

Share share_of(const Experiment& experiment, const Communicator& ranks, PartitionFigures& printed) {
  if (!is_split(experiment, ranks.size())) return Share(experiment.algorithm->records());
  RankPartition partition = partition_for(experiment, ranks.size());
  if (ranks.first()) printed = figures(partition, experiment.graph(), experiment.options.seed);
  return Share(experiment.graph(), std::move(partition), ranks.rank());
}

}  // namespace

Error with_rank(const std::exception& error, const Communicator& ranks) {
  const auto* const known = dynamic_cast<const Error*>(&error);
  const std::string name = ranks.alone() ? "" : ranks.name() + ": ";
  return Error(name + error.what(), known != nullptr ? known->exit_code() : ExitCode::kFailure);
}

Training::Training(const TrainOptions& options, Communicator& ranks,
                   decltype(StoreOptions::device_hook) device_hook) try
    : ranks_(ranks),
      experiment_(options, team_of(ranks)),
      options_(experiment_.options),
      share_(share_of(experiment_, ranks, partition_figures_)),
      place_(store_place(options, RankNumbers::of(ranks))),
      requirements_(experiment_, ShareSize(experiment_, share_), place_),
      contents_(content_hashes(experiment_)),
      owners_(owners_hash(share_, options_.nodes)),
      progress_(!ranks.first()  ? Talk::kNothing
                : options.quiet ? Talk::kWarnings
                                : Talk::kProgress,
                log_of(options, ranks)),
      learning_rate_(options.lr_schedule, options.learning_rate, options.warmup_rounds, options.rounds),
      start_(Clock::now()) {
  requirements_.store.device_hook = std::move(device_hook);
  // Until it has started, this thread sees every failure by itself, and cleans up. Then it may be waiting for others
  // who wait for the store.
  requirements_.store.on_failure = [this](const std::exception_ptr& error) {
    if (started_ && !alone()) end_all_ranks(error);
  };
  ranks_.on_failure([this](const std::string& message) { progress_.note(message); });
} catch (const std::exception& error) {
  throw with_rank(error, ranks);
}

Training::~Training() { ranks_.on_failure({}); }

void Training::set_up() {
  choose_stores();
  if (!share_.whole()) open_window();
  if (options_.device.starts_with("cuda")) pin_frames();
  if (options_.strict) on_all_ranks([&] { require_modes(); });
  if (options_.trace) start_trace();
  take_stores();
  if (neighbours_) neighbours_->connect(store_->id());
  const std::vector<std::byte> first = experiment_.first_state();
  on_all_ranks([&] {
    make_workers(first);
    if (moving()) move_nodes();
    if (!options_.resume) create_population(first);
  });
  if (moving()) {
    checkpoint();
    leave_former_stores();
  }
  if (options_.resume) take_up_checkpoint();
  new_folders_.clear();
  made_store_ = false;
  if (!ranks_.first()) return;
  write_stores({places_, {}});
  if (!experiment_.network.names.empty()) files_->write("node_names.csv", names_csv());
  files_->write("config.toml", to_toml(settings(options_)));  // last: where it is, all else is there
}

// And what else the rounds need beside the store.
void Training::make_workers(const std::vector<std::byte>& first) {
  prepare_tensor_library(options_.intra_op);
  pipeline_ =
      std::make_unique<NodePipeline>(*store_, options_.threads, trace_.get(), prepare_worker_thread, options_.intra_op);
  const NodeLayout& layout = *experiment_.layout;
  context_ = std::make_unique<WorkerContext>(
      WorkerContext{layout, *experiment_.optimizer, experiment_.sampler.get(), workers_, &progress_});
  for (unsigned i = 0; i < options_.threads; ++i) {
    workers_.push_back(std::make_unique<Worker>(*context_, experiment_.model->make_learner()));
  }
  const float* const parameters = layout.parameters(first.data());
  const std::vector<float> reference(parameters, parameters + layout.flat_size());
  population_ = std::make_unique<Population>(layout, reference);
  if (!share_.whole() && ranks_.first()) everybody_ = std::make_unique<Population>(layout, reference);
  const SlowRank& slow = options_.slow_rank;
  train_work_ = std::make_unique<TrainWork>(*experiment_.algorithm, layout, share_, workers_, *population_,
                                            store_->places(), slow.rank == ranks_.rank() ? slow.factor : 1);
  evaluate_work_ = std::make_unique<EvaluateWork>(layout, workers_, experiment_.sampler.get(), options_.eval_samples);
  evaluated_ = sample_of_nodes(options_, experiment_.algorithm->records());
  for (std::uint32_t number = 0; number < evaluated_.size(); ++number) {
    const bool here = share_.whole() ? ranks_.first() : share_.owns(evaluated_[number]);
    if (here) evaluated_here_.push_back(number);
  }
}

void Training::start_trace() {
  // A host has one clock; those of several are set by a meeting, within some milliseconds.
  ranks_.barrier();
  const Clock::rep now = Clock::now().time_since_epoch().count();
  const auto clocks = ranks_.gather_everywhere(std::as_bytes(std::span(&now, 1)));
  Clock::rep start = 0;
  std::memcpy(&start, clocks[ranks_.host_leader()].data(), sizeof(start));
  trace_ = std::make_unique<Trace>(Trace::node_events(ranks_.size()), Trace::kRoundEvents,
                                   Clock::time_point(Clock::duration(start)));
  requirements_.store.on_stall = [trace = trace_.get()](Stall stall, Clock::time_point from, Clock::time_point to) {
    const char* const name = stall == Stall::kWriteBack    ? "waiting for write-back"
                             : stall == Stall::kNeighbours ? "waiting for neighbours"
                                                           : "waiting for reads";
    trace->add(name, Trace::kStoreLane, from, to);
  };
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

// With a store that is gone again: a mode that was not given must not cost the run that is to be overwritten.
void Training::require_modes() {
  StoreOptions trial = requirements_.store;
  trial.directory /= "trial";
  if (!trial.cold_directory.empty()) trial.cold_directory /= "trial";
  trial.peers = nullptr;
  trial.guests = 0;
  trial.listing = {};
  trial.serving_frames = 0;
  remember_new_folders(trial.directory);
  if (!trial.cold_directory.empty()) remember_new_folders(trial.cold_directory);
  const std::vector<ModeReport> modes = StateStore::create(trial)->report().modes;
  StateStore::remove(trial);
  remove_new_folders();
  for (const ModeReport& mode : modes) {
    if (!mode.degraded()) continue;
    throw Error(fmt::format("--strict: {} is {} where {} was asked for: {}", mode.what, mode.actual, mode.requested,
                            mode.reason));
  }
}

// A device copies from and to the frames by itself then; without it each copy would go through the driver's buffers.
void Training::pin_frames() {
  if (options_.store_io == IoEngine::kMapped) return;  // records are used where the kernel keeps them
  StoreOptions& store = requirements_.store;
  if (window_) {
    registered_ = HostRegistration(store.region);
    if (!registered_.refusal().empty()) {
      progress_.say(fmt::format("{}: copies are slow, because the frames are not pinned: {}", options_.device,
                                registered_.refusal()));
    }
    return;
  }
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
  const Clock::time_point begin = Clock::now();
  progress_.begin("creating nodes", requirements_.records);
  CreateWork work(*experiment_.model, *experiment_.layout, share_, options_.seed,
                  options_.init == InitialModels::kSame ? &first : nullptr, *population_, progress_);
  store_->plan(over_all(StepKind::kCreate));
  totals_.lower_bound += pipeline_->run(work).lower_bound_bytes;
  progress_.end();
  if (trace_) trace_->add_to_round("creating nodes", begin, Clock::now(), Trace::kNoNumber);
}

CheckpointNote Training::note(std::uint64_t rounds_done) const {
  CheckpointNote note;
  note.rounds_done = rounds_done;
  note.take_settings(options_);
  note.contents = contents_;
  note.owners = owners_;
  note.set_results_folder(options_.out, place_.store);
  return note;
}

void Training::take_up_checkpoint() {
  const CheckpointNote then = CheckpointNote::parse(store_->checkpoint_note());
  first_round_ = next_round_ = rounds_done_ = then.rounds_done;
  checkpointed_ = rounds_done_;
  // The store says where its run's results are: here, from now on.
  const bool elsewhere = !same_folder(then.results_folder(place_.store), options_.out);
  if (ranks_.least(elsewhere ? -1 : 0) < 0) checkpoint();
  for (std::uint64_t round = 0; round < first_round_; ++round) share_.localize(experiment_.algorithm->plan(round));
  const nlohmann::json last = files_ ? continue_metrics() : nlohmann::json();
  if (!experiment_.algorithm->all_act() || first_round_ == options_.rounds) inspect(population_.get());
  if (first_round_ != options_.rounds) return;
  // Nothing is left to train. What nodes.csv says of single nodes was kept nowhere, so the last round's evaluation is
  // made again; the other figures are in its line.
  take_up_everybody();
  evaluate_next_ = first_round_ > 0 && evaluation_due(first_round_ - 1);
  if (last.is_object()) {
    if (last["loss"].is_number()) loss_ = last["loss"].get<double>();
    if (last["consensus_distance"].is_number()) consensus_distance_ = last["consensus_distance"].get<double>();
  }
}

// The lines of the rounds that are done, from where the run's results were until now. Returns the last one.
nlohmann::json Training::continue_metrics() {
  const std::filesystem::path from = former_out_.empty() ? options_.out : former_out_;
  const nlohmann::json last = files_->continue_metrics(from, first_round_);
  const std::uint64_t known = last.is_object() ? last["round"].get<std::uint64_t>() + 1 : 0;
  if (known < first_round_) {
    progress_.say(fmt::format("metrics.jsonl lacks the lines of rounds {} to {}: they are not in {}", known,
                              first_round_ - 1, from.string()));
  }
  return last;
}

}  // namespace shoal
