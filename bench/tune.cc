#include "bench/tune.h"

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "bench/measurement.h"
#include "bench/plans.h"
#include "bench/report.h"
#include "bench/steps.h"
#include "store/size_text.h"

namespace shoal::bench {
namespace {

using Json = nlohmann::json;

class Tuner {
 public:
  Tuner(const BenchOptions& options, const std::filesystem::path& directory)
      : options_(options),
        settings_(options.engine_options(directory)),
        plans_(options.nodes, options.degree, options.seed),
        steps_(options.layout, options.nodes, options.seed) {}

  Json run() {
    fill();
    settings_.open_as = OpenAs::kExisting;
    try_values("queue depth", {0, 8, 16, 32, 64},
               [](EngineOptions& o, std::uint64_t v) { o.queue_depth = unsigned(v); });
    try_values("prefetch bytes", prefetch_choices(), [](EngineOptions& o, std::uint64_t v) { o.prefetch_bytes = v; });
    try_values("submit batch", {1, 4, 8, 32}, [](EngineOptions& o, std::uint64_t v) { o.submit_batch = unsigned(v); });
    return {{"trials", trials_}, {"best", best_}};
  }

 private:
  // From a few records to a good part of the RAM.
  std::vector<std::uint64_t> prefetch_choices() const {
    std::vector<std::uint64_t> choices = {0};
    for (std::uint64_t records = 4; records <= 64; records *= 2) {
      const std::uint64_t bytes = records * options_.layout.state_bytes();
      if (bytes <= options_.ram_bytes / 2) choices.push_back(bytes);
    }
    return choices;
  }

  void fill() {
    const std::unique_ptr<Engine> engine = make_engine("shoal", settings_);
    play(*engine, Verb::kFill, false);
    engine->checkpoint();
    steps_.remember();
  }

  void try_values(const char* what, const std::vector<std::uint64_t>& values,
                  const std::function<void(EngineOptions&, std::uint64_t)>& set) {
    const EngineOptions base = settings_;
    for (const std::uint64_t value : values) {
      EngineOptions candidate = base;
      set(candidate, value);
      const Json trial = measure(candidate);
      fmt::print(stderr, "[tune] {} {}: {:.3f} s\n", what, value, trial["seconds"].get<double>());
      trials_.push_back(trial);
      if (best_.is_null() || trial["seconds"] < best_["seconds"]) {
        best_ = trial;
        settings_ = candidate;
      }
    }
  }

  Json measure(const EngineOptions& candidate) {
    const std::unique_ptr<Engine> engine = make_engine("shoal", candidate);
    steps_.recall();
    std::vector<double> seconds;
    const unsigned rounds = options_.warmup + options_.rounds;
    for (unsigned i = 0; i < rounds; ++i) {
      const double time = play(*engine, Verb::kStream, i + 1 < rounds);
      if (i >= options_.warmup) seconds.push_back(time);
    }
    const double middle = median(seconds);
    const auto logical = static_cast<double>(logical_bytes(*plans_.plan(Verb::kStream, 0), options_.layout));
    return {{"queue_depth", candidate.queue_depth},
            {"prefetch_bytes", candidate.prefetch_bytes},
            {"submit_batch", candidate.submit_batch},
            {"seconds", middle},
            {"gigabytes_per_second", logical / middle / 1e9}};
  }

  double play(Engine& engine, Verb verb, bool another) {
    const auto plan = plans_.plan(verb, 0);
    const auto start = std::chrono::steady_clock::now();
    engine.run_round(plan, another ? plan : nullptr, steps_.work(verb, round_++));
    const auto end = std::chrono::steady_clock::now();
    steps_.end_round();
    return std::chrono::duration<double>(end - start).count();
  }

  const BenchOptions& options_;
  EngineOptions settings_;
  Plans plans_;
  Steps steps_;
  std::uint64_t round_ = 0;
  Json trials_ = Json::array();
  Json best_;
};

constexpr const char* kOfTheStore = "the store's choice";

std::string depth_text(const Json& trial) {
  const auto depth = trial["queue_depth"].get<unsigned>();
  return depth == 0 ? kOfTheStore : std::to_string(depth);
}

std::string prefetch_text(const Json& trial) {
  const auto bytes = trial["prefetch_bytes"].get<std::uint64_t>();
  return bytes == 0 ? kOfTheStore : size_text(bytes);
}

}  // namespace

Json run_tune(const BenchOptions& options, const std::filesystem::path& directory) {
  return Tuner(options, directory).run();
}

std::string tune_table(const Json& outcome) {
  std::vector<std::vector<std::string>> rows = {{"queue depth", "prefetch bytes", "submit batch", "seconds", "GB/s"}};
  for (const Json& trial : outcome["trials"]) {
    rows.push_back({depth_text(trial), prefetch_text(trial), fmt::format("{}", trial["submit_batch"].get<unsigned>()),
                    fmt::format("{:.3f}", trial["seconds"].get<double>()),
                    fmt::format("{:.2f}", trial["gigabytes_per_second"].get<double>())});
  }
  std::istringstream lines(table(rows));
  std::string text;
  for (std::string line; std::getline(lines, line);) text += "# " + line + "\n";
  return text;
}

std::string config_fragment(const Json& outcome) {
  const Json& best = outcome["best"];
  std::string text = fmt::format("submit-batch = {}\n", best["submit_batch"].get<unsigned>());
  if (const auto depth = best["queue_depth"].get<unsigned>(); depth != 0)
    text += fmt::format("queue-depth = {}\n", depth);
  const auto prefetch = best["prefetch_bytes"].get<std::uint64_t>();
  if (prefetch != 0) text += fmt::format("prefetch-bytes = {}\n", prefetch);
  return text;
}

}  // namespace shoal::bench
