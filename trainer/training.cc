#include "trainer/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <span>
#include <thread>
#include <utility>

#include "planner/residency.h"
#include "store/error.h"
#include "trainer/disk_check.h"
#include "trainer/json_number.h"
#include "trainer/report_html.h"
#include "trainer/stop_signal.h"

namespace shoal {

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

// Where the rounds' uses of own records found them. Zeros are made where they are used: in RAM.
json tiers_json(const RoundReport& report) {
  const std::uint64_t misses = report.misses[0] + report.misses[1];
  return {{"hot", report.hits[0] + report.hits[1] + report.zero_misses},
          {"warm", misses - report.zero_misses - report.cold_misses},
          {"cold", report.cold_misses}};
}

json times_json(const RoundTimes& times) {
  return {{"store", times.waiting_for_store},
          {"neighbours", times.waiting_for_neighbours},
          {"compute", times.waiting_for_compute},
          {"write_back", times.waiting_for_write_back}};
}

}  // namespace

TrainingResult Training::run() {
  try {
    return run_all();
  } catch (...) {
    // Before anything is destroyed: others wait for this rank, and taking a window down takes all of them.
    end_all_ranks(std::current_exception());
    throw;  // a rank alone
  }
}

// From any thread.
void Training::end_all_ranks(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    const Error named = with_rank(caught, ranks_);
    const std::string message = fmt::format("shoal-train: {}", named.what());
    progress_.note(message);
    if (!alone()) ranks_.fail(message, named.exit_code());
  }
}

// All ranks find that they can start, before any of them writes something.
void Training::check_everywhere() {
  requirements_.check_ram();
  if (const std::string remark = check_disk(options_, requirements_, ranks_); !remark.empty()) progress_.say(remark);
  if (options_.slow_rank.factor != 1 && options_.slow_rank.rank >= ranks_.size()) {
    throw Error(fmt::format("--slow-rank {}: there is no such rank; the last one is {}", options_.slow_rank.rank,
                            ranks_.size() - 1),
                ExitCode::kUsage);
  }
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
  try {
    set_up();
  } catch (...) {
    // Of several ranks others may have made something: stores.json goes on listing it.
    if (alone()) undo_start();
    throw;
  }
  started_ = true;
  if (ranks_.first()) statistics_ = statistics(experiment_.graph(), mixing_of(options_), options_.seed);
  say_what_runs();

  progress_.begin_training(options_.rounds, rounds_done_);
  if (trace_) trace_->start_nodes();
  TrainingResult result;
  meet();  // they may have been asked to stop while nodes were made
  result.stopped = stopping_ && rounds_done_ < options_.rounds;
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
    if (item.round < first_round_) continue;  // it was finished before this run was resumed
    finish_round(item.round);
    result.stopped = stopping_ && rounds_done_ < options_.rounds;
  }
  progress_.end();
  if (result.stopped) {
    if (checkpointed_ != rounds_done_) checkpoint();
    result.rounds_done = rounds_done_;
    result.checkpoint = fmt::format("the checkpoint is in {}", place_.store.string());
    if (!alone()) result.checkpoint += fmt::format(" and in the other ranks' folders ({})", RunStores::kFile);
    if (trace_) write_trace();
    return result;
  }

  result.summary = summary();
  if (ranks_.first()) {
    files_->write("nodes.csv", nodes_csv());
    files_->write("summary.json", result.summary.dump(2) + "\n");
    files_->write("report.html", report_html(files_->folder(), result.summary, statistics_));
  }
  if (options_.checkpoint_every == 0) discard_stores();
  if (trace_) write_trace();  // last: without it nothing else is lost
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
  totals_.lower_bound += pipeline_->run(work).lower_bound_bytes;
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
      const RoundPlan plan = experiment_.algorithm->plan(item.round);
      LocalPlan local = share_.localize(plan);
      item.own_steps = experiment_.node_steps(local.plan, ranks_.rank(), ranks_.size());
      // Where ranks go their own pace, nobody knows how far the others are.
      item.all_steps = free() ? item.own_steps : experiment_.node_steps(plan, 0, 1);
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
  std::int64_t stops = stop_requested() ? 1 : 0;
  ranks_.sum(std::span(&stops, 1));
  stopping_ = stops > 0;
}

// Without rounds in step: nobody is more than --max-lag rounds ahead of the slowest.
void Training::keep_pace(std::uint64_t round) {
  neighbours_->announce(round);
  const auto must_wait = [&] { return neighbours_->slowest() + options_.max_lag < round; };
  if (!must_wait()) return;
  ++totals_.rounds_held_back;
  while (must_wait()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Returns the seconds.
double Training::wait_for_others(std::uint64_t round, const std::function<void()>& wait) {
  const Clock::time_point begin = Clock::now();
  wait();
  if (trace_ && !alone()) trace_->add_to_round("waiting for neighbours", begin, Clock::now(), round);
  return seconds_since(begin);
}

Training::Tally Training::add_up(const Tally& own) {
  if (alone()) return own;
  // Ranks that keep the same record have made the same steps and found the same loss.
  const bool count_loss = !share_.whole() || ranks_.first();
  const auto limbs = (count_loss ? own.figures.loss_sum : FixedSum()).limbs();
  std::vector<std::int64_t> numbers(limbs.begin(), limbs.end());
  Tally all = own;
  auto& [figures, sum, remote, checkpoint_bytes, neighbour_reads, guest_reads] = all;
  if (!count_loss) figures.trained = sum.steps = 0;
  std::uint64_t* const counts[] = {&figures.trained,
                                   &figures.node_steps,
                                   &sum.steps,
                                   &sum.hits[0],
                                   &sum.hits[1],
                                   &sum.misses[0],
                                   &sum.misses[1],
                                   &sum.zero_misses,
                                   &sum.cold_misses,
                                   &sum.slab_bytes_read,
                                   &sum.slab_bytes_written,
                                   &sum.cold_bytes_read,
                                   &sum.cold_bytes_written,
                                   &sum.cold_file_bytes_read,
                                   &sum.cold_file_bytes_written,
                                   &checkpoint_bytes,
                                   &neighbour_reads,
                                   &guest_reads,
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
  take_up_everybody();
  return all;
}

// On rank 0: the sums over all ranks' nodes.
void Training::take_up_everybody() {
  if (alone() || share_.whole()) return;
  std::vector<std::int64_t> sums = population_->pack();
  ranks_.sum_at_first(sums);
  if (everybody_) everybody_->unpack(sums);
}

void Training::train(const Item& item) {
  const Clock::time_point begin = Clock::now();
  const double communication_before = ranks_.cpu_seconds();
  const double learning_rate = learning_rate_.at(item.round);
  progress_.begin_round(item.own_steps, item.all_steps);
  train_work_->begin(item.round, item.plan, learning_rate, options_.local_steps);
  double waited = 0;  // for others' rounds, outside of the pipeline
  if (free()) {
    waited += wait_for_others(item.round, [&] { keep_pace(item.round); });
    neighbours_->expect_any(item.round + 1);
  } else if (neighbours_) {
    neighbours_->expect(item.guest_versions);
  }
  const RoundReport own_report = pipeline_->run(*train_work_, [&] {
    if (!free()) wait_for_others(item.round, [&] { meet(); });
  });
  if (free() && together(item.round)) {
    neighbours_->announce(options_.rounds + options_.max_lag);
    waited += wait_for_others(item.round, [&] { ranks_.barrier(); });
  }
  const RoundFigures own_figures = train_work_->figures();
  const NeighbourFigures remote = neighbours_ ? neighbours_->take_figures() : NeighbourFigures{};
  const AccessPlan& accesses = *item.plan.accesses;
  const Tally own{own_figures,
                  own_report,
                  remote,
                  std::exchange(checkpoint_bytes_, 0),
                  accesses.total_reads(),
                  guest_reads(accesses, share_.nodes())};
  const Tally all = together(item.round) ? add_up(own) : own;
  const RoundFigures& figures = all.figures;
  const RoundReport& report = all.report;
  RoundTimes times = pipeline_->times();
  times.waiting_for_neighbours += waited;
  const Spread spread = together(item.round) ? all_nodes().spread() : population_->spread();
  const double loss = figures.loss();
  const double seconds = seconds_since(begin);
  if (trace_) trace_->end_round(begin, Clock::now(), item.round);

  progress_.end_steps(figures.node_steps, seconds);
  totals_.lower_bound += own_report.lower_bound_bytes;
  totals_.remote_lower_bound += own_report.guests * experiment_.layout->state().record_bytes(Part::kPublic);
  totals_.neighbours.add(remote);
  totals_.node_steps += own_figures.node_steps;
  totals_.training_seconds += seconds;
  totals_.communication_cpu_seconds += ranks_.cpu_seconds() - communication_before;
  totals_.times.mix += times.mix;
  totals_.times.compute += times.compute;
  totals_.times.waiting_for_store += times.waiting_for_store;
  totals_.times.waiting_for_neighbours += times.waiting_for_neighbours;
  totals_.times.waiting_for_compute += times.waiting_for_compute;
  totals_.times.waiting_for_write_back += times.waiting_for_write_back;

  const bool lost = figures.trained > 0 && !std::isfinite(loss);
  if (warning_.empty() && (lost || !own_figures.warning.empty())) {
    warning_ = fmt::format(
        "round {}: {}", item.round,
        own_figures.warning.empty() ? "the loss is not a number any more; try a smaller --lr" : own_figures.warning);
    progress_.warn(warning_);
  }
  // Where one record stands for all nodes, its step is that of all.
  const std::uint64_t nodes_per_step = options_.nodes / experiment_.algorithm->records();
  line_ = {{"round", item.round},
           {"acting", report.steps * nodes_per_step},
           {"trained", figures.trained * nodes_per_step},
           {"node_steps", figures.node_steps},
           {"loss", json_number(loss)},
           {"learning_rate", learning_rate},
           {"consensus_distance", json_number(spread.consensus_distance)},
           {"layers", spread_json(spread)},
           {"seconds", seconds},
           {"node_steps_per_second", seconds > 0 ? static_cast<double>(figures.node_steps) / seconds : 0},
           {"tier_hits", tiers_json(report)},
           {"hits", {{"public", report.hits[0]}, {"private", report.hits[1]}}},
           {"misses", {{"public", report.misses[0]}, {"private", report.misses[1]}}},
           {"bytes_read", report.slab_bytes_read + report.cold_file_bytes_read},
           {"bytes_written", report.slab_bytes_written + report.cold_file_bytes_written},
           {"cold_records_read", report.cold_bytes_read},
           {"cold_records_written", report.cold_bytes_written},
           {"checkpoint_bytes", all.checkpoint_bytes},
           {"lower_bound_bytes", report.lower_bound_bytes},
           {"neighbour_reads", all.neighbour_reads},
           {"remote_reads", all.guest_reads},
           {"remote_bytes", all.neighbours.bytes()},
           {"requested_bytes", all.neighbours.requested_bytes},
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
  totals_.lower_bound += pipeline_->run(*evaluate_work_).lower_bound_bytes;
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
  if (trace_) trace_->add_to_round("evaluation", begin, Clock::now(), item.round);
}

void Training::finish_round(std::uint64_t round) {
  rounds_done_ = round + 1;
  if (files_) files_->add_metrics(line_);
  std::string figures = line_["trained"] > 0 ? fmt::format("loss {:.4f}", loss_) : "nobody trained";
  if (!evaluation_.is_null()) figures += fmt::format(", accuracy {:.4f}", evaluation_["mean"].get<double>());
  progress_.round_done(figures);
  const std::uint64_t every = options_.checkpoint_every;
  if (every > 0 && (rounds_done_ % every == 0 || rounds_done_ == options_.rounds)) checkpoint();
}

void Training::checkpoint() {
  const Clock::time_point begin = Clock::now();
  const std::string said = note(rounds_done_).text();
  if (files_) files_->sync_metrics();  // whoever goes on from here finds the lines of all rounds before
  if (ranks_.first()) {
    // Rank 0's is the one that counts, and is made when all others have theirs and still know the one before.
    ranks_.barrier();
    store_->checkpoint(said);
    ranks_.barrier();
  } else {
    store_->prepare_checkpoint(said);
    ranks_.barrier();
    ranks_.barrier();
    store_->commit_checkpoint();
  }
  checkpointed_ = rounds_done_;
  ++totals_.checkpoints;
  const std::uint64_t written = store_->report().checkpoint_bytes_written;
  checkpoint_bytes_ += written - std::exchange(totals_.checkpoint_bytes, written);
  totals_.checkpoint_seconds += seconds_since(begin);
  if (trace_) trace_->add_to_round("checkpoint", begin, Clock::now(), rounds_done_ - 1);
}

}  // namespace shoal
