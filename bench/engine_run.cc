#include "bench/engine_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "bench/measurement.h"
#include "bench/plans.h"
#include "bench/script.h"
#include "bench/steps.h"
#include "store/error.h"

namespace shoal::bench {
namespace {

class EngineRun {
 public:
  EngineRun(std::string engine_name, const BenchOptions& options, const std::filesystem::path& directory,
            const RunHooks& hooks)
      : engine_name_(std::move(engine_name)),
        options_(options),
        hooks_(hooks),
        device_(directory),
        plans_(options.nodes, options.degree, options.seed),
        steps_(options.layout, options.nodes, options.seed),
        engine_(make_engine(engine_name_, options.engine_options(directory))),
        some_nodes_(std::max<std::size_t>(1, options.nodes / 4)) {
    std::iota(some_nodes_.begin(), some_nodes_.end(), NodeId{0});
  }

  nlohmann::json run() {
    std::vector<Verb> verbs;
    for (const Verb verb : options_.verbs) {
      if (engine_->supports(verb)) {
        verbs.push_back(verb);
      } else {
        skip(verb);
      }
    }
    script_ = make_script(verbs, {options_.rounds, options_.warmup});
    measurements_.resize(verbs.size());
    for (std::size_t i = 0; i < script_.size(); ++i) {
      play(i);
      const std::optional<std::size_t> workload = script_[i].workload;
      if (workload && last_of(i)) finish(verbs[*workload], measurements_[*workload]);
    }
    return {{"facts", engine_->facts()},
            {"fingerprint", fmt::format("{:016x}", steps_.fingerprint())},
            {"expectation", fmt::format("{:016x}", steps_.expectation())}};
  }

 private:
  void skip(Verb verb) {
    fmt::print(stderr, "[{}] {}: skipped, the engine has no such operation\n", engine_name_, name(verb));
    nlohmann::json result = heading(verb);
    result["skipped"] = "the engine has no such operation";
    hooks_.result(result);
  }

  // Is this the last measured item of its workload?
  bool last_of(std::size_t item) const {
    return std::none_of(script_.begin() + static_cast<std::ptrdiff_t>(item) + 1, script_.end(),
                        [&](const auto& later) { return later.workload == script_[item].workload; });
  }

  void play(std::size_t index) {
    const ScriptItem& item = script_[index];
    std::shared_ptr<const AccessPlan> plan = is_round(item.verb) ? plan_of(index) : nullptr;
    const std::uint64_t logical = logical_of(item.verb, plan.get());
    const auto next = index + 1 < script_.size() && is_round(item.verb) && is_round(script_[index + 1].verb)
                          ? plan_of(index + 1)
                          : nullptr;
    const Work work = is_round(item.verb) ? steps_.work(item.verb, index) : Work();
    const bool calibrated = hooks_.calibrate && item.measured && is_round(item.verb);
    Measurement* measurement = item.measured ? &measurements_[*item.workload] : nullptr;
    if (calibrated) measurement->add_fio(hooks_.calibrate(read_share_.value_or(0.5)));

    const Counters before = Counters::now(device_);
    const auto start = std::chrono::steady_clock::now();
    RoundFigures figures;
    if (is_round(item.verb)) {
      figures = engine_->run_round(plan, next, work);
    } else {
      between_rounds(item.verb);
    }
    const auto time = std::chrono::steady_clock::now() - start;
    const Counters after = Counters::now(device_);

    if (!is_round(item.verb))
      figures.operations.add(static_cast<std::uint64_t>(std::chrono::nanoseconds(time).count()));
    remember(item.verb);
    Measurement last_round;
    Measurement& target = measurement != nullptr ? *measurement : last_round;
    target.add_round(std::chrono::duration<double>(time).count(), logical, before, after);
    target.add_store_figures(figures.lower_bound_bytes, figures.store_bytes, figures.stalled_seconds);
    target.add_operations(figures.operations);
    read_share_ = target.read_share();
    if (calibrated && last_of(index)) measurement->add_fio(hooks_.calibrate(read_share_.value_or(0.5)));
  }

  void between_rounds(Verb verb) {
    switch (verb) {
      case Verb::kCheckpoint: engine_->checkpoint(); break;
      case Verb::kRestore: engine_->restore(); break;
      case Verb::kDemote: engine_->demote(some_nodes_); break;
      case Verb::kPromote: engine_->promote(some_nodes_); break;
      default: SHOAL_CHECK(verb == Verb::kVerify); engine_->verify();
    }
  }

  void remember(Verb verb) {
    if (is_round(verb)) steps_.end_round();
    if (verb == Verb::kCheckpoint) steps_.remember();
    if (verb == Verb::kRestore) steps_.recall();
  }

  // The engine is given a plan twice, as the next one and as the one to run: it must be the same object.
  std::shared_ptr<const AccessPlan> plan_of(std::size_t index) {
    if (planned_index_ != index || planned_ == nullptr) {
      planned_ = plans_.plan(script_[index].verb, index);
      planned_index_ = index;
    }
    return planned_;
  }

  std::uint64_t logical_of(Verb verb, const AccessPlan* plan) const {
    if (plan != nullptr) return logical_bytes(*plan, options_.layout);
    const std::uint64_t node =
        options_.layout.payload_bytes(Part::kPublic) + options_.layout.payload_bytes(Part::kPrivate);
    if (verb == Verb::kDemote || verb == Verb::kPromote) return 2 * node * some_nodes_.size();
    return verb == Verb::kVerify ? node * options_.nodes : 0;
  }

  nlohmann::json heading(Verb verb) const {
    return {{"workload", name(verb)},
            {"engine", engine_name_},
            {"nodes", options_.nodes},
            {"ram_bytes", options_.ram_bytes}};
  }

  void finish(Verb verb, const Measurement& measurement) {
    nlohmann::json result = heading(verb);
    result.update(measurement.to_json());
    result["peak_rss_bytes"] = peak_rss_bytes();
    if (options_.histogram) result["histogram"] = measurement.operations().to_json();
    fmt::print(stderr, "[{}] {}: {:.3f} s, {:.2f} GB/s\n", engine_name_, name(verb), measurement.median_seconds(),
               result["gigabytes_per_second"].get<double>());
    hooks_.result(result);
  }

  std::string engine_name_;
  const BenchOptions& options_;
  const RunHooks& hooks_;
  BlockDevice device_;
  Plans plans_;
  Steps steps_;
  std::unique_ptr<Engine> engine_;
  std::vector<NodeId> some_nodes_;  // that are demoted and promoted

  std::vector<ScriptItem> script_;
  std::shared_ptr<const AccessPlan> planned_;
  std::size_t planned_index_ = 0;
  std::optional<double> read_share_;  // of the last round
  std::vector<Measurement> measurements_;
};

}  // namespace

nlohmann::json run_engine(const std::string& engine_name, const BenchOptions& options,
                          const std::filesystem::path& directory, const RunHooks& hooks) {
  return EngineRun(engine_name, options, directory, hooks).run();
}

}  // namespace shoal::bench
