#include "trainer/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <span>
#include <thread>

#include "store/error.h"
#include "trainer/checkpoint_note.h"
#include "trainer/json_number.h"
#include "trainer/report_html.h"

namespace shoal {

std::atomic<bool> stop_requested{false};

namespace {

using nlohmann::json;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

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
          {"neighbours", times.waiting_for_neighbours},
          {"compute", times.waiting_for_compute},
          {"write_back", times.waiting_for_write_back}};
}

}  // namespace

TrainingResult Training::run() {
  if (alone()) return run_all();
  try {
    return run_all();
  } catch (const std::exception& error) {
    // Before anything is destroyed: others wait for this rank, and taking a window down takes all of them.
    const auto* const known = dynamic_cast<const Error*>(&error);
    ranks_.fail(fmt::format("shoal-train: rank {} on {}: {}", ranks_.rank(), ranks_.host(), error.what()),
                known != nullptr ? known->exit_code() : ExitCode::kFailure);
    throw;
  }
}

// All ranks find that they can start, before any of them writes something.
void Training::check_everywhere() {
  requirements_.check_ram();
  if (!options_.resume) requirements_.check_disk();
  if (options_.pace == Pace::kFree && alone()) {
    progress_.say("--async free: a rank alone has nobody to be ahead of; it runs in rounds");
  }
  if (free() && (options_.checkpoint_every > 0 || options_.resume)) {
    throw Error(
        "--async free: its ranks are never at one point, so it makes no checkpoints; leave out "
        "--checkpoint-every and --resume",
        ExitCode::kUsage);
  }
  if (free() && !experiment_.algorithm->all_act()) {
    throw Error(fmt::format("--async free: {} has its own clock; choose an algorithm whose nodes act in every round",
                            options_.algorithm),
                ExitCode::kUsage);
  }
  if (free() && share_.whole()) {
    throw Error(fmt::format("--async free: {} keeps one model for all; choose another algorithm", options_.algorithm),
                ExitCode::kUsage);
  }
  ranks_.barrier();
}

TrainingResult Training::run_all() {
  check_everywhere();
  if (ranks_.first()) statistics_ = statistics(experiment_.graph(), options_.mixing, options_.seed);
  // A run that cannot start leaves nothing behind that was not there before.
  const bool new_out = !std::filesystem::exists(options_.out);
  const bool new_store = !std::filesystem::exists(place_.store);
  try {
    set_up();
  } catch (...) {
    pipeline_.reset();
    store_.reset();
    files_.reset();
    std::error_code ignored;
    if (new_store) std::filesystem::remove_all(place_.store, ignored);
    if (new_out && ranks_.first()) std::filesystem::remove_all(options_.out, ignored);
    throw;
  }
  say_what_runs();

  const std::uint64_t nodes_per_round = requirements_.records;
  progress_.begin("training", (options_.rounds - rounds_done_) * nodes_per_round, options_.rounds, rounds_done_);
  TrainingResult result;
  for (plan_ahead(); !items_.empty() && !result.stopped; plan_ahead()) {
    const Item item = std::move(items_.front());
    items_.pop_front();
    if (item.kind == Item::Kind::kInspect) {
      inspect(nullptr);
      continue;
    }
    if (item.kind == Item::Kind::kTrain) train(item);
    if (item.kind == Item::Kind::kEvaluate) evaluate(item);
    if (item.kind == Item::Kind::kTrain && evaluation_due(item.round)) continue;
    finish_round(item.round);
    result.stopped = stopping_ && rounds_done_ < options_.rounds;
  }
  progress_.end();
  if (trace_) {
    trace_->write(options_.out / (ranks_.first() ? "trace.json" : fmt::format("trace-rank-{}.json", ranks_.rank())));
  }
  if (result.stopped) {
    if (checkpointed_ != rounds_done_) checkpoint();
    return result;
  }

  result.summary = summary();
  if (ranks_.first()) {
    files_->write("nodes.csv", nodes_csv());
    files_->write("summary.json", result.summary.dump(2) + "\n");
    files_->write("report.html", report_html(files_->folder(), result.summary));
  }
  if (options_.checkpoint_every == 0) {
    // Nobody could go on from it.
    pipeline_.reset();
    store_.reset();
    StateStore::remove(requirements_.store);
  }
  return result;
}

std::shared_ptr<const AccessPlan> Training::over_all(StepKind kind) const {
  auto plan = std::make_shared<AccessPlan>();
  plan->reserve(share_.nodes(), 0);
  if (experiment_.algorithm->records() == experiment_.order.size()) {
    for (const NodeId node : experiment_.order) {
      if (share_.owns(node)) plan->add(kind, share_.local(node));
    }
  } else {
    for (NodeId node = 0; node < share_.nodes(); ++node) plan->add(kind, node);
  }
  return plan;
}

void Training::inspect(Population* population) {
  InspectWork work(*experiment_.layout, share_, options_.threads, population);
  if (population != nullptr) store_->plan(over_all(StepKind::kInspect));
  add_to_totals(pipeline_->run(work));
  gather_lines(work);
}

// Keeps the store two plans ahead, so that eviction looks across the border between rounds.
void Training::plan_ahead() {
  while (items_.size() < 2) {
    Item item;
    if (evaluate_next_) {
      item.kind = Item::Kind::kEvaluate;
      item.round = next_round_ - 1;
      auto plan = std::make_shared<AccessPlan>();
      for (const std::uint32_t number : evaluated_here_) {
        const NodeId node = share_.local(evaluated_[number]);
        plan->add(StepKind::kRead, node, std::span(&node, 1));
      }
      item.plan.accesses = std::move(plan);
      evaluate_next_ = false;
    } else if (next_round_ < options_.rounds) {
      item.round = next_round_++;
      LocalPlan local = share_.localize(experiment_.algorithm->plan(item.round));
      item.plan = std::move(local.plan);
      item.guest_versions = std::move(local.guest_versions);
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
  if (experiment_.sampler == nullptr || evaluated_.empty() || !together(round)) return false;
  return (round + 1) % options_.eval_every == 0 || round + 1 == options_.rounds;
}

// All ranks have done their part of the round: what they published may become visible, and what it replaces may go.
// They also agree whether one of them was asked to stop.
void Training::meet() {
  std::int64_t stops = stop_requested ? 1 : 0;
  ranks_.sum(std::span(&stops, 1));
  stopping_ = stops > 0;
}

// Without rounds in step: nobody is more than --max-lag rounds ahead of the slowest.
void Training::keep_pace(std::uint64_t round) {
  neighbours_->announce(round);
  while (neighbours_->slowest() + options_.max_lag < round) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

Training::Tally Training::add_up(const RoundFigures& own, const RoundReport& report,
                                 const NeighbourFigures& neighbours) {
  if (alone()) return {own, report, neighbours};
  // Ranks that keep the same record have made the same steps and found the same loss.
  const bool count_loss = !share_.whole() || ranks_.first();
  const auto limbs = (count_loss ? own.loss_sum : FixedSum()).limbs();
  std::vector<std::int64_t> numbers(limbs.begin(), limbs.end());
  RoundFigures figures = own;
  RoundReport sum = report;
  if (!count_loss) figures.trained = sum.steps = 0;
  NeighbourFigures remote = neighbours;
  std::uint64_t* const counts[] = {&figures.trained,
                                   &figures.node_steps,
                                   &sum.steps,
                                   &sum.hits[0],
                                   &sum.hits[1],
                                   &sum.misses[0],
                                   &sum.misses[1],
                                   &sum.slab_bytes_read,
                                   &sum.slab_bytes_written,
                                   &sum.cold_bytes_read,
                                   &sum.cold_bytes_written,
                                   &sum.lower_bound_bytes,
                                   &sum.guest_fetches,
                                   &sum.guests,
                                   &remote.shared_bytes,
                                   &remote.one_sided_bytes,
                                   &remote.requested_bytes,
                                   &remote.torn};
  for (const std::uint64_t* count : counts) numbers.push_back(static_cast<std::int64_t>(*count));
  ranks_.sum_at_first(numbers);
  figures.loss_sum = FixedSum::from_limbs(numbers);
  std::size_t at = FixedSum::kLimbs;
  for (std::uint64_t* count : counts) *count = static_cast<std::uint64_t>(numbers[at++]);
  if (!share_.whole()) {
    std::vector<std::int64_t> sums = population_->pack();
    ranks_.sum_at_first(sums);
    if (everybody_) everybody_->unpack(sums);
  }
  return {figures, sum, remote};
}

void Training::train(const Item& item) {
  const Clock::time_point begin = Clock::now();
  const double learning_rate = learning_rate_.at(item.round);
  train_work_->begin(item.round, item.plan, learning_rate, options_.local_steps);
  if (free()) {
    keep_pace(item.round);
    neighbours_->expect_any(item.round + 1);
  } else if (neighbours_) {
    neighbours_->expect(item.guest_versions);
  }
  const RoundReport own_report = pipeline_->run(*train_work_, [&] {
    if (!free()) meet();
  });
  if (free() && together(item.round)) {
    neighbours_->announce(options_.rounds + options_.max_lag);
    ranks_.barrier();
  }
  const RoundFigures own_figures = train_work_->figures();
  const NeighbourFigures remote = neighbours_ ? neighbours_->take_figures() : NeighbourFigures{};
  const Tally all =
      together(item.round) ? add_up(own_figures, own_report, remote) : Tally{own_figures, own_report, remote};
  const RoundFigures& figures = all.figures;
  const RoundReport& report = all.report;
  const RoundTimes& times = pipeline_->times();
  const Spread spread = together(item.round) ? all_nodes().spread() : population_->spread();
  const double loss = figures.loss();
  const double seconds = seconds_since(begin);
  if (trace_) trace_->add("round", Trace::kMainLane, begin, Clock::now(), item.round);

  add_to_totals(own_report);
  totals_.remote_lower_bound += own_report.guests * experiment_.layout->state().record_bytes(Part::kPublic);
  totals_.neighbours.add(remote);
  totals_.node_steps += own_figures.node_steps;
  totals_.training_seconds += seconds;
  totals_.times.mix += times.mix;
  totals_.times.compute += times.compute;
  totals_.times.waiting_for_store += times.waiting_for_store;
  totals_.times.waiting_for_neighbours += times.waiting_for_neighbours;
  totals_.times.waiting_for_compute += times.waiting_for_compute;
  totals_.times.waiting_for_write_back += times.waiting_for_write_back;

  if (figures.trained > 0 && !std::isfinite(loss) && !warned_) {
    progress_.say(fmt::format("round {}: the loss is not a number any more; try a smaller --lr", item.round));
    warned_ = true;
  }
  line_ = {{"round", item.round},
           {"acting", report.steps},
           {"node_steps", figures.node_steps},
           {"loss", json_number(loss)},
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
           {"remote_bytes", all.neighbours.bytes()},
           {"stall_seconds", times_json(times)},
           {"mix_seconds", times.mix},
           {"compute_seconds", times.compute}};
  // Where ranks go their own pace, these are rank 0's nodes until all have arrived.
  if (free()) line_["ranks"] = together(item.round) ? ranks_.size() : 1;
  consensus_distance_ = spread.consensus_distance;
  loss_ = loss;
}

void Training::evaluate(const Item& item) {
  const Clock::time_point begin = Clock::now();
  evaluate_work_->begin(evaluated_here_.size());
  add_to_totals(pipeline_->run(*evaluate_work_));
  if (!alone()) {
    const auto packed = ranks_.gather(evaluate_work_->pack(evaluated_here_));
    if (!ranks_.first()) {
      totals_.evaluation_seconds += seconds_since(begin);
      return;
    }
    evaluate_work_->unpack(packed, evaluated_.size());
  }
  double sum = 0;
  double least = 1;
  double most = 0;
  for (const Score& score : evaluate_work_->scores()) {
    const double accuracy = static_cast<double>(score.correct) / static_cast<double>(score.samples);
    sum += accuracy;
    least = std::min(least, accuracy);
    most = std::max(most, accuracy);
  }
  const std::vector<float> mean = all_nodes().mean();
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
  if (files_) files_->add_metrics(line_);
  std::string figures = fmt::format("loss {:.4f}", loss_);
  if (!evaluation_.is_null()) figures += fmt::format(", accuracy {:.4f}", evaluation_["mean"].get<double>());
  progress_.round_done(round, figures);
  const std::uint64_t every = options_.checkpoint_every;
  if (every > 0 && (rounds_done_ % every == 0 || rounds_done_ == options_.rounds)) checkpoint();
}

void Training::checkpoint() {
  const Clock::time_point begin = Clock::now();
  const std::string note = CheckpointNote::of(rounds_done_, options_).text();
  if (ranks_.first()) {
    // Rank 0's is the one that counts, and is made when all others have theirs and still know the one before.
    ranks_.barrier();
    store_->checkpoint(note);
    ranks_.barrier();
  } else {
    store_->prepare_checkpoint(note);
    ranks_.barrier();
    ranks_.barrier();
    store_->commit_checkpoint();
  }
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
