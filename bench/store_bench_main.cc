// shoal-store-bench: reads the command line, runs each engine in a process of its own, prints what they did.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/bench_directory.h"
#include "bench/bench_options.h"
#include "bench/child_process.h"
#include "bench/command_line.h"
#include "bench/engine_run.h"
#include "bench/environment.h"
#include "bench/fio.h"
#include "bench/memory_cgroup.h"
#include "bench/report.h"
#include "bench/tune.h"
#include "store/error.h"
#include "store/size_text.h"

namespace shoal::bench {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kRssAllowance = std::uint64_t{64} << 20;  // code, libraries, the benchmark's own tables

void say(const std::string& text) { fmt::print(stderr, "shoal-store-bench: {}\n", text); }

// One limit for every engine; without it, engines that use the page cache have all the machine's RAM.
std::optional<MemoryCgroup> limit_memory(const BenchOptions& options, Json& environment) {
  std::string reason;
  std::optional<MemoryCgroup> cgroup = MemoryCgroup::create(options.ram_bytes + kRssAllowance, reason);
  environment["memory_cgroup_bytes"] = cgroup ? Json(cgroup->limit_bytes()) : Json();
  if (!cgroup) {
    environment["memory_cgroup_refused"] = reason;
    say(
        fmt::format("WARNING: PAGE CACHE IS NOT LIMITED ({}). The engines mmap, files and shoal-mapped can use all "
                    "the RAM of this machine and will look faster than they are in {}",
                    reason, size_text(options.ram_bytes)));
  }
  return cgroup;
}

std::uint64_t space_needed(const BenchOptions& options, std::uint64_t fio_bytes) {
  std::uint64_t most = 0;
  for (const std::string& engine : options.engines) {
    most = std::max(most, disk_bytes_needed(engine, options.engine_options({}), options.verbs));
  }
  return most + fio_bytes;
}

FioOptions fio_options(const BenchOptions& options, const std::filesystem::path& directory) {
  constexpr std::uint64_t kMostFileBytes = std::uint64_t{4} << 30;
  constexpr std::uint64_t kMostBlockBytes = 4 << 20;  // larger ones only cost fio memory
  FioOptions fio;
  fio.directory = directory;
  fio.file_bytes = std::min(options.state_bytes(), kMostFileBytes);
  fio.block_bytes = std::min(options.layout.record_bytes(Part::kPublic), kMostBlockBytes);
  if (options.queue_depth != 0) fio.depths = {options.queue_depth};
  return fio;
}

void report_modes(const std::string& engine, const Json& facts) {
  for (const Json& mode : facts.value("modes", Json::array())) {
    if (mode["requested"] == mode["actual"]) continue;
    say(fmt::format("[{}] {}: requested {}, actual {} ({})", engine, mode["what"].get<std::string>(),
                    mode["requested"].get<std::string>(), mode["actual"].get<std::string>(),
                    mode["reason"].get<std::string>()));
  }
}

class Bench {
 public:
  explicit Bench(const BenchOptions& options)
      : options_(options),
        directory_(options.directory),
        environment_(describe_environment(options, directory_.path())),
        cgroup_(limit_memory(options, environment_)) {
    const FioOptions fio = fio_options(options, directory_.path());
    directory_.require_space(space_needed(options, options.calibrate ? fio.file_bytes : 0));
    if (options.calibrate) fio_.emplace(fio);
  }

  ExitCode run() {
    for (const std::string& engine : options_.engines) {
      run_one(engine);
      if (interrupted()) break;  // what was measured before is still worth printing
    }
    compare_fingerprints();
    if (options_.json) {
      fmt::print("{}\n", Json{{"environment", environment_}, {"results", results_}, {"errors", errors_}}.dump(2));
    } else {
      fmt::print("{} nodes of {} in {} of RAM, {} in all, on {} ({})\n\n", options_.nodes, options_.layout_name,
                 size_text(options_.ram_bytes), size_text(options_.state_bytes()),
                 environment_["file_system"].get<std::string>(), environment_["block_device"].get<std::string>());
      fmt::print("{}{}", results_table(results_), histograms(results_));
    }
    return exit_code_;
  }

  ExitCode tune() {
    const std::filesystem::path folder = directory_.make_empty("tune");
    const Json outcome = run_in_child(
        {[&](const AskParent& /*ask*/) { return run_tune(options_, folder); }, {}, cgroup_ ? &*cgroup_ : nullptr});
    if (options_.json) {
      fmt::print("{}\n", Json{{"environment", environment_}, {"tune", outcome}}.dump(2));
    } else {
      fmt::print("{}\n{}", tune_table(outcome), config_fragment(outcome));
    }
    return ExitCode::kOk;
  }

 private:
  void run_one(const std::string& engine) {
    const std::filesystem::path folder = directory_.make_empty(engine);
    const bool calibrated = fio_ && is_shoal(engine);
    ChildTask task;
    task.cgroup = cgroup_ ? &*cgroup_ : nullptr;
    std::uint64_t peak_rss = 0;
    task.answer = [&](const Json& question) {
      if (question.contains("read_share")) return Json(fio_->measure(question["read_share"].get<double>()));
      peak_rss = std::max(peak_rss, question["result"].value("peak_rss_bytes", std::uint64_t{0}));
      take(question["result"]);
      return Json();
    };
    task.run = [&](const AskParent& ask) {
      RunHooks hooks;
      hooks.result = [&](const Json& result) { ask({{"result", result}}); };
      if (calibrated) {
        hooks.calibrate = [&](double read_share) { return ask({{"read_share", read_share}}).get<FioSample>(); };
      }
      return run_engine(engine, options_, folder, hooks);
    };
    try {
      const Json outcome = run_in_child(task);
      report_modes(engine, outcome["facts"]);
      environment_["engines"][engine] = outcome["facts"];
      fingerprints_[outcome["expectation"]].emplace_back(engine, outcome["fingerprint"]);
    } catch (const Error& error) {
      fail(engine, error.what(), error.exit_code());
    }
    if (!kSanitized && is_shoal(engine) && peak_rss > allowed_rss()) {
      fail(engine, fmt::format("its peak RSS was {}, more than the RAM number of {} + {}", size_text(peak_rss),
                               size_text(options_.ram_bytes), size_text(kRssAllowance)));
    }
    directory_.remove(engine);
  }

  void take(Json result) {
    const auto rss = result.value("peak_rss_bytes", std::uint64_t{0});
    if (rss != 0 && is_shoal(result["engine"].get<std::string>())) result["rss_within_budget"] = rss <= allowed_rss();
    results_.push_back(std::move(result));
  }

  std::uint64_t allowed_rss() const { return options_.ram_bytes + kRssAllowance; }

  // Engines that did the same must hold the same bits, all of them.
  void compare_fingerprints() {
    for (const auto& [expectation, engines] : fingerprints_) {
      for (const auto& [engine, fingerprint] : engines) {
        if (fingerprint != engines.front().second) {
          fail(engine, fmt::format("its records differ from those of {} after the same rounds (fingerprints {} and {})",
                                   engines.front().first, fingerprint, engines.front().second));
        }
      }
    }
  }

  void fail(const std::string& engine, const std::string& message, ExitCode code = ExitCode::kFailure) {
    if (exit_code_ == ExitCode::kOk) exit_code_ = code;
    say(fmt::format("[{}] {}", engine, message));
    errors_.push_back({{"engine", engine}, {"message", message}});
  }

  const BenchOptions& options_;
  BenchDirectory directory_;
  Json environment_;
  std::optional<MemoryCgroup> cgroup_;
  std::optional<Fio> fio_;
  Json results_ = Json::array();
  Json errors_ = Json::array();
  ExitCode exit_code_ = ExitCode::kOk;  // of the first failure
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> fingerprints_;
};

ExitCode main_of(int argc, const char* const* argv) {
  const CommandLine command = parse_command_line(argc, argv);
  if (command.print) {
    fmt::print("{}", *command.print);
    return ExitCode::kOk;
  }
  throw_on_interrupt();
  Bench bench(command.options);
  return command.options.tune ? bench.tune() : bench.run();
}

}  // namespace
}  // namespace shoal::bench

int main(int argc, char** argv) {
  return shoal::bench::run_main("shoal-store-bench",
                                [&] { return static_cast<int>(shoal::bench::main_of(argc, argv)); });
}
