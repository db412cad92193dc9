#include "trainer/training.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "store/error.h"
#include "store/size_text.h"
#include "trainer/checkpoint_note.h"
#include "trainer/json_number.h"
#include "trainer/random.h"
#include "trainer/report_html.h"

namespace shoal {

std::atomic<bool> stop_requested{false};

namespace {

using nlohmann::json;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::vector<NodeId> sample_of_nodes(const TrainOptions& options, NodeId records) {
  const NodeId count = std::min(options.eval_nodes, records);
  RandomStream random(options.seed, Purpose::kEvaluation);
  std::set<NodeId> chosen;
  while (chosen.size() < count) chosen.insert(random.below(records));
  return {chosen.begin(), chosen.end()};
}

json spread_json(const Spread& spread) {
  json layers = json::object();
  for (const LayerSpread& layer : spread.layers) {
    layers[layer.name] = {{"distance", json_number(layer.distance)},
                          {"norm_mean", json_number(layer.norm_mean)},
                          {"norm_cv", json_number(layer.norm_cv)}};
  }
  return layers;
}

json times_json(const RoundTimes& times) {
  return {{"store", times.waiting_for_store},
          {"compute", times.waiting_for_compute},
          {"write_back", times.waiting_for_write_back}};
}

}  // namespace

Training::Training(const TrainOptions& options)
    : experiment_(options),
      options_(experiment_.options),
      requirements_(experiment_),
      progress_(options.quiet ? Talk::kQuiet : Talk::kProgress),
      learning_rate_(options.lr_schedule, options.learning_rate, options.warmup_rounds, options.rounds),
      start_(Clock::now()) {}

Training::~Training() = default;

TrainingResult Training::run() {
  requirements_.check_ram();
  if (!options_.resume) requirements_.check_disk();
  statistics_ = statistics(experiment_.graph(), options_.mixing, options_.seed);
  // A run that cannot start leaves nothing behind that was not there before.
  const bool new_out = !std::filesystem::exists(options_.out);
  const bool new_store = !std::filesystem::exists(options_.store);
  try {
    set_up();
  } catch (...) {
    pipeline_.reset();
    store_.reset();
    files_.reset();
    std::error_code ignored;
    if (new_store) std::filesystem::remove_all(options_.store, ignored);
    if (new_out) std::filesystem::remove_all(options_.out, ignored);
    throw;
  }
  say_what_runs();

  const std::uint64_t nodes_per_round = requirements_.records;
  progress_.begin("training", (options_.rounds - rounds_done_) * nodes_per_round, options_.rounds, rounds_done_);
  TrainingResult result;
  std::unique_ptr<InspectWork> inspection;
  for (plan_ahead(); !items_.empty() && !result.stopped; plan_ahead()) {
    const Item item = std::move(items_.front());
    items_.pop_front();
    if (item.kind == Item::Kind::kInspect) {
      inspection = inspect(nullptr);
      continue;
    }
    if (item.kind == Item::Kind::kTrain) train(item);
    if (item.kind == Item::Kind::kEvaluate) evaluate(item);
    if (item.kind == Item::Kind::kTrain && evaluation_due(item.round)) continue;
    finish_round(item.round);
    result.stopped = stop_requested && rounds_done_ < options_.rounds;
  }
  progress_.end();
  if (trace_) trace_->write(files_->folder() / "trace.json");
  if (result.stopped) {
    if (checkpointed_ != rounds_done_) checkpoint();
    return result;
  }

  result.summary = summary(*inspection);
  files_->write("nodes.csv", nodes_csv(*inspection));
  files_->write("summary.json", result.summary.dump(2) + "\n");
  files_->write("report.html", report_html(files_->folder(), result.summary));
  if (options_.checkpoint_every == 0) {
    // Nobody could go on from it.
    pipeline_.reset();
    store_.reset();
    StateStore::remove(requirements_.store);
  }
  return result;
}

void Training::set_up() {
  const RunFiles::Start start = options_.resume      ? RunFiles::Start::kResume
                                : options_.overwrite ? RunFiles::Start::kOverwrite
                                                     : RunFiles::Start::kNew;
  RunFiles::check(options_.out, start);
  if (options_.resume) CheckpointNote::of_config(RunFiles::read_config(options_.out), options_).require_same(options_);
  if (options_.device.starts_with("cuda")) pin_frames();
  store_ = options_.resume ? StateStore::open(requirements_.store) : StateStore::create(requirements_.store);
  files_ = std::make_unique<RunFiles>(options_.out, start);
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
  population_ = std::make_unique<Population>(layout, std::vector<float>(parameters, parameters + layout.flat_size()));
  train_work_ =
      std::make_unique<TrainWork>(*experiment_.algorithm, layout, workers_, *population_, progress_, store_->places());
  evaluate_work_ = std::make_unique<EvaluateWork>(layout, workers_, experiment_.sampler.get(), options_.eval_samples);
  evaluated_ = sample_of_nodes(options_, experiment_.algorithm->records());

  if (options_.resume) {
    take_up_checkpoint();
  } else {
    create_population(first);
  }
  // After the checkpoint's settings were found to be the same.
  files_->write("config.toml", to_toml(settings(options_)));
  if (!experiment_.network.names.empty()) files_->write("node_names.csv", names_csv());
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
  CreateWork work(*experiment_.model, *experiment_.layout, options_.seed,
                  options_.init == InitialModels::kSame ? &first : nullptr, *population_, progress_);
  store_->plan(over_all(StepKind::kCreate));
  add_to_totals(pipeline_->run(work));
  progress_.end();
}

void Training::take_up_checkpoint() {
  if (store_->checkpoint_note().empty()) {
    throw Error(
        fmt::format("--resume: the run in {} was ended before its first checkpoint; start it again with "
                    "--overwrite",
                    options_.out.string()));
  }
  const CheckpointNote note = CheckpointNote::parse(store_->checkpoint_note());
  note.require_same(options_);
  if (note.rounds_done > options_.rounds) {
    throw Error(fmt::format("--rounds {}: the checkpoint has {} rounds already", options_.rounds, note.rounds_done),
                ExitCode::kUsage);
  }
  first_round_ = next_round_ = rounds_done_ = checkpointed_ = note.rounds_done;
  for (std::uint64_t round = 0; round < first_round_; ++round) experiment_.algorithm->plan(round);
  const json last = files_->keep_metrics_before(first_round_);
  if (!experiment_.algorithm->all_act() || first_round_ == options_.rounds) inspect(population_.get());
  if (first_round_ == options_.rounds && last.is_object()) {
    // Nothing is left to train: the figures are those of the last round.
    if (last["loss"].is_number()) loss_ = last["loss"].get<double>();
    if (last.contains("accuracy")) evaluation_ = last["accuracy"];
    consensus_distance_ = population_->spread().consensus_distance;
  }
}

std::shared_ptr<const AccessPlan> Training::over_all(StepKind kind) const {
  auto plan = std::make_shared<AccessPlan>();
  const NodeId records = experiment_.algorithm->records();
  plan->reserve(records, 0);
  if (records == experiment_.order.size()) {
    for (const NodeId node : experiment_.order) plan->add(kind, node);
  } else {
    for (NodeId node = 0; node < records; ++node) plan->add(kind, node);
  }
  return plan;
}

std::unique_ptr<InspectWork> Training::inspect(Population* population) {
  auto work = std::make_unique<InspectWork>(*experiment_.layout, experiment_.algorithm->records(), options_.threads,
                                            population);
  if (population != nullptr) store_->plan(over_all(StepKind::kInspect));
  add_to_totals(pipeline_->run(*work));
  return work;
}

// Keeps the store two plans ahead, so that eviction looks across the border between rounds.
void Training::plan_ahead() {
  while (items_.size() < 2) {
    Item item;
    if (evaluate_next_) {
      item.kind = Item::Kind::kEvaluate;
      item.round = next_round_ - 1;
      auto plan = std::make_shared<AccessPlan>();
      for (const NodeId node : evaluated_) plan->add(StepKind::kRead, node, std::span(&node, 1));
      item.plan.accesses = std::move(plan);
      evaluate_next_ = false;
    } else if (next_round_ < options_.rounds) {
      item.round = next_round_++;
      item.plan = experiment_.algorithm->plan(item.round);
      evaluate_next_ = evaluation_due(item.round);
    } else if (!inspection_planned_) {
      item.kind = Item::Kind::kInspect;
      item.plan.accesses = over_all(StepKind::kInspect);
      inspection_planned_ = true;
    } else {
      return;
    }
    store_->plan(item.plan.accesses);
    items_.push_back(std::move(item));
  }
}

bool Training::evaluation_due(std::uint64_t round) const {
  if (experiment_.sampler == nullptr || evaluated_.empty()) return false;
  return (round + 1) % options_.eval_every == 0 || round + 1 == options_.rounds;
}

void Training::train(const Item& item) {
  const Clock::time_point begin = Clock::now();
  const double learning_rate = learning_rate_.at(item.round);
  train_work_->begin(item.round, item.plan, learning_rate, options_.local_steps);
  const RoundReport report = pipeline_->run(*train_work_);
  const RoundFigures figures = train_work_->figures();
  const RoundTimes& times = pipeline_->times();
  const Spread spread = population_->spread();
  const double seconds = seconds_since(begin);
  if (trace_) trace_->add("round", Trace::kMainLane, begin, Clock::now(), item.round);

  add_to_totals(report);
  totals_.node_steps += figures.node_steps;
  totals_.training_seconds += seconds;
  totals_.times.mix += times.mix;
  totals_.times.compute += times.compute;
  totals_.times.waiting_for_store += times.waiting_for_store;
  totals_.times.waiting_for_compute += times.waiting_for_compute;
  totals_.times.waiting_for_write_back += times.waiting_for_write_back;

  if (figures.trained > 0 && !std::isfinite(figures.loss) && !warned_) {
    progress_.say(fmt::format("round {}: the loss is not a number any more; try a smaller --lr", item.round));
    warned_ = true;
  }
  line_ = {{"round", item.round},
           {"acting", report.steps},
           {"node_steps", figures.node_steps},
           {"loss", json_number(figures.loss)},
           {"learning_rate", learning_rate},
           {"consensus_distance", json_number(spread.consensus_distance)},
           {"layers", spread_json(spread)},
           {"seconds", seconds},
           {"node_steps_per_second", seconds > 0 ? static_cast<double>(figures.node_steps) / seconds : 0},
           {"hits", {{"public", report.hits[0]}, {"private", report.hits[1]}}},
           {"misses", {{"public", report.misses[0]}, {"private", report.misses[1]}}},
           {"bytes_read", report.slab_bytes_read + report.cold_bytes_read},
           {"bytes_written", report.slab_bytes_written + report.cold_bytes_written},
           {"lower_bound_bytes", report.lower_bound_bytes},
           {"stall_seconds", times_json(times)},
           {"mix_seconds", times.mix},
           {"compute_seconds", times.compute}};
  consensus_distance_ = spread.consensus_distance;
  loss_ = figures.loss;
}

void Training::evaluate(const Item& item) {
  const Clock::time_point begin = Clock::now();
  evaluate_work_->begin(evaluated_.size());
  add_to_totals(pipeline_->run(*evaluate_work_));
  double sum = 0;
  double least = 1;
  double most = 0;
  for (const Score& score : evaluate_work_->scores()) {
    const double accuracy = static_cast<double>(score.correct) / static_cast<double>(score.samples);
    sum += accuracy;
    least = std::min(least, accuracy);
    most = std::max(most, accuracy);
  }
  const std::vector<float> mean = population_->mean();
  const std::vector<std::byte> buffers = evaluate_work_->mean_buffers();
  const Score score = evaluate_work_->score(*workers_[0], mean.data(), buffers.data());
  evaluation_ = {{"mean", sum / static_cast<double>(evaluated_.size())},
                 {"min", least},
                 {"max", most},
                 {"mean_model", static_cast<double>(score.correct) / static_cast<double>(score.samples)},
                 {"mean_model_loss", json_number(score.loss)},
                 {"nodes", evaluated_.size()},
                 {"samples", score.samples}};
  line_["accuracy"] = evaluation_;
  totals_.evaluation_seconds += seconds_since(begin);
  if (trace_) trace_->add("evaluation", Trace::kMainLane, begin, Clock::now(), item.round);
}

void Training::finish_round(std::uint64_t round) {
  rounds_done_ = round + 1;
  files_->add_metrics(line_);
  std::string figures = fmt::format("loss {:.4f}", loss_);
  if (!evaluation_.is_null()) figures += fmt::format(", accuracy {:.4f}", evaluation_["mean"].get<double>());
  progress_.round_done(round, figures);
  const std::uint64_t every = options_.checkpoint_every;
  if (every > 0 && (rounds_done_ % every == 0 || rounds_done_ == options_.rounds)) checkpoint();
}

void Training::checkpoint() {
  const Clock::time_point begin = Clock::now();
  store_->checkpoint(CheckpointNote::of(rounds_done_, options_).text());
  checkpointed_ = rounds_done_;
  totals_.checkpoint_seconds += seconds_since(begin);
  if (trace_) trace_->add("checkpoint", Trace::kMainLane, begin, Clock::now(), rounds_done_);
}

void Training::add_to_totals(const RoundReport& report) {
  totals_.bytes_read += report.slab_bytes_read + report.cold_bytes_read;
  totals_.bytes_written += report.slab_bytes_written + report.cold_bytes_written;
  totals_.lower_bound += report.lower_bound_bytes;
}

}  // namespace shoal
