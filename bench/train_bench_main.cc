// shoal-train-bench: shoal-train against bare training loops, interleaved, each in a process of its own.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/bare_loop.h"
#include "bench/bench_directory.h"
#include "bench/child_process.h"
#include "bench/command_line.h"
#include "bench/fio.h"
#include "bench/measurement.h"
#include "bench/train_run.h"
#include "store/error.h"
#include "store/size_text.h"
#include "store/types.h"

namespace shoal::bench {
namespace {

using Json = nlohmann::json;

constexpr const char* kDescription =
    R"(shoal-train-bench measures shoal-train on this machine against training loops without exchange, store or metrics.

  libtorch   N models in RAM, torch::nn and torch::optim, as one would write it
  bare       N models in RAM, shoal-train's own learner and optimizer in a plain loop
  in-ram     shoal-train with RAM for all of the state
  1/16       shoal-train with --ram a sixteenth of the state: frames, tables, data set and all; or, for a few large
             models, with RAM for a step of every worker
  in-ram+fio the same as in-ram, with fio beside it, which moves as many bytes a second from and to the same disk as the
             1/16 of that turn or the one before: what moving them costs on this machine, whoever does it. Where there is
             no fio, leave it out: --runs names the others
  in-ram-libtorch, 1/16-libtorch (lenet5)
             the same two with the model as TorchScript: LibTorch's kernels instead of Shoal's own for LeNet-5

All are run --repeats times in turn, in this order and in the other one, each after a rest of --rest seconds: a virtual
machine gives gigabytes that a run has freed back to its host, and the next run is slower meanwhile. The figures are
medians of node-steps a second, and their ratios.)";

constexpr const char* kBesideFio = "in-ram+fio";

struct Options {
  BareLoopOptions loop;
  std::vector<std::string> runs;
  std::string graph = "random-regular:8";
  unsigned repeats = 5;
  unsigned rest_seconds = 15;
  std::optional<std::filesystem::path> directory;
  bool json = false;
};

struct Measurement {
  double speed = 0;
  Json summary;  // shoal-train's
};

std::vector<std::string> flags(const Options& options, const std::string& model, const std::string& ram) {
  const BareLoopOptions& loop = options.loop;
  return {"--model",     model,
          "--data",      loop.data,
          "--optimizer", loop.optimizer,
          "--lr",        fmt::format("{}", loop.learning_rate),
          "--batch",     std::to_string(loop.batch),
          "--nodes",     std::to_string(loop.nodes),
          "--threads",   std::to_string(loop.threads),
          "--rounds",    std::to_string(loop.rounds),
          "--graph",     options.graph,
          "--ram",       ram};
}

Measurement shoal_train(const Options& options, const std::string& model, const std::filesystem::path& folder,
                        const std::string& ram) {
  const Json summary = train_run(flags(options, model, ram), folder);
  return {summary["node_steps_per_second"].get<double>(), summary};
}

Measurement in_child(double (*loop)(const BareLoopOptions&), const BareLoopOptions& options) {
  ChildTask task;
  task.run = [&](const AskParent&) { return Json(loop(options)); };
  return {run_in_child(task).get<double>(), {}};
}

// What a node and the least take, from the program's own mouth.
std::uint64_t ram_for_a_sixteenth(const Options& options, const std::filesystem::path& folder) {
  std::vector<std::string> plan = flags(options, options.loop.model, "16GiB");
  plan.emplace_back("--dry-run");
  const Json probe = train_run(plan, folder);
  const auto state = probe["state_bytes_per_node"].get<std::uint64_t>();
  // Few large models: a sixteenth may be less than one step needs, and every worker should have a step.
  const std::uint64_t workers = probe["least_ram_bytes"].get<std::uint64_t>() + options.loop.threads * 2 * state;
  return std::max(state * options.loop.nodes / 16, workers);
}

// `moved`: the summary of the run that moved the bytes.
Measurement beside_fio(const Options& options, const std::filesystem::path& directory, const Json& moved) {
  FioOptions fio_options;
  fio_options.directory = directory;
  fio_options.file_bytes = std::uint64_t{2} << 30;
  const std::uint64_t record_bytes = moved["state_bytes_per_node"].get<std::uint64_t>() / 2;
  fio_options.block_bytes = std::min<std::uint64_t>(record_bytes / kBlockBytes * kBlockBytes, 1 << 20);
  // With creation and inspection, which move fewer bytes a second than rounds: fio is favoured by some 4 %.
  const double seconds = moved["wall_seconds"].get<double>();
  const auto read = moved["bytes_read"].get<double>();
  const auto written = moved["bytes_written"].get<double>();
  if (read + written == 0) throw Error("--runs: 1/16 moved nothing for fio to move; give more --nodes");
  const Fio fio(fio_options);
  ProgramBeside beside(fio.at_rates(read / seconds, written / seconds));
  const Measurement result = shoal_train(options, options.loop.model, directory / "run", "16GiB");
  if (!beside.runs()) throw Error("fio ended before the run beside it did; look at what fio itself says");
  return result;
}

int run(const Options& options) {
  throw_on_interrupt();
  const BenchDirectory directory(options.directory);
  const std::filesystem::path folder = directory.path() / "run";
  const std::uint64_t small = ram_for_a_sixteenth(options, folder);

  std::vector<std::string> names = {"libtorch", "bare", "in-ram", "1/16", kBesideFio};
  std::string script;
  if (options.loop.model == "lenet5") {
    names.insert(names.end(), {"in-ram-libtorch", "1/16-libtorch"});
    const std::filesystem::path file = directory.path() / "lenet5.pt";
    ChildTask task;  // LibTorch starts threads, and this process must be able to fork
    task.run = [&](const AskParent&) {
      write_lenet5_script(file);
      return Json();
    };
    run_in_child(task);
    script = "script:" + file.string();
  }
  std::erase_if(names, [&](const std::string& name) {
    return !options.runs.empty() && std::find(options.runs.begin(), options.runs.end(), name) == options.runs.end();
  });
  if (names.empty()) throw Error("--runs: there is none of that name for this model", ExitCode::kUsage);
  const auto has = [&](const char* name) { return std::ranges::find(names, name) != names.end(); };
  if (has(kBesideFio) && !has("1/16")) {
    throw Error("--runs: in-ram+fio moves what 1/16 moves; name that one too", ExitCode::kUsage);
  }
  if (has(kBesideFio)) run_program({"fio", "--version"});  // or it ends here, before anything is measured
  const std::string little = fmt::format("{}B", small);
  std::map<std::string, std::vector<double>> speeds;
  std::map<std::string, Json> summaries;
  for (unsigned repeat = 0; repeat < options.repeats; ++repeat) {
    if (repeat > 0) std::ranges::reverse(names);
    for (const std::string& name : names) {
      ::sleep(options.rest_seconds);  // an interruption ends it, and the run behind it
      const std::string& model = name.ends_with("-libtorch") ? script : options.loop.model;
      const Measurement result =
          name == "libtorch"   ? in_child(libtorch_loop, options.loop)
          : name == "bare"     ? in_child(learner_loop, options.loop)
          : name == kBesideFio ? beside_fio(options, directory.path(), summaries["1/16"])
                               : shoal_train(options, model, folder, name.starts_with("in-ram") ? "16GiB" : little);
      speeds[name].push_back(result.speed);
      summaries[name] = result.summary;
      fmt::print(stderr, "{}/{} {:<16} {:8.1f} node-steps/s\n", repeat + 1, options.repeats, name, result.speed);
    }
  }
  if (options.repeats % 2 == 0) std::ranges::reverse(names);
  Json report = {{"model", options.loop.model},     {"optimizer", options.loop.optimizer},
                 {"batch", options.loop.batch},     {"nodes", options.loop.nodes},
                 {"threads", options.loop.threads}, {"rounds", options.loop.rounds},
                 {"repeats", options.repeats},      {"graph", options.graph},
                 {"results", Json::array()}};
  for (const std::string& name : names) {
    const auto [least, most] = std::minmax_element(speeds[name].begin(), speeds[name].end());
    Json result = {{"name", name}, {"node_steps_per_second", median(speeds[name])}, {"least", *least}, {"most", *most}};
    const char* const in_ram = name.ends_with("-libtorch") ? "in-ram-libtorch" : "in-ram";
    for (const char* reference : {"libtorch", "bare", in_ram, kBesideFio}) {
      if (!speeds.contains(reference)) continue;
      // Run by run, so that a slow minute of the machine hits both.
      std::vector<double> ratios;
      for (std::size_t i = 0; i < speeds[name].size(); ++i) ratios.push_back(speeds[name][i] / speeds[reference][i]);
      result[fmt::format("to {}", reference == in_ram ? "in-ram" : reference)] = median(ratios);
    }
    for (const char* key : {"ram_budget_bytes", "bytes_read", "bytes_written", "peak_rss_bytes", "stall_seconds"}) {
      if (summaries[name].is_object()) result[key] = summaries[name][key];
    }
    report["results"].push_back(result);
  }
  if (options.json) {
    fmt::print("{}\n", report.dump(2));
    return 0;
  }
  fmt::print("{:<16}{:>14}{:>22}{:>13}{:>9}{:>11}{:>15}{:>12}{:>12}\n", "", "node-steps/s", "least .. most",
             "to libtorch", "to bare", "to in-ram", "to in-ram+fio", "read", "written");
  for (const Json& result : report["results"]) {
    const auto bytes = [&](const char* key) {
      return result.contains(key) ? size_text(result[key].get<std::uint64_t>()) : std::string("-");
    };
    const auto ratio = [&](const char* key) {
      return result.contains(key) ? fmt::format("{:.3f}", result[key].get<double>()) : std::string("-");
    };
    fmt::print("{:<16}{:>14.1f}{:>22}{:>13}{:>9}{:>11}{:>15}{:>12}{:>12}\n", result["name"].get<std::string>(),
               result["node_steps_per_second"].get<double>(),
               fmt::format("{:.1f} .. {:.1f}", result["least"].get<double>(), result["most"].get<double>()),
               ratio("to libtorch"), ratio("to bare"), ratio("to in-ram"), ratio("to in-ram+fio"), bytes("bytes_read"),
               bytes("bytes_written"));
  }
  return 0;
}

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app(kDescription, "shoal-train-bench");
  app.option_defaults()->always_capture_default();
  app.add_option("--model", options.loop.model, "lenet5, resnet18");
  app.add_option("--data", options.loop.data, "Data set");
  app.add_option("--optimizer", options.loop.optimizer, "sgd, adam")->check(CLI::IsMember({"sgd", "adam"}));
  app.add_option("--lr", options.loop.learning_rate, "Learning rate");
  app.add_option("--batch", options.loop.batch, "Samples per step");
  app.add_option("--nodes", options.loop.nodes, "Models");
  app.add_option("--threads", options.loop.threads, "Worker threads");
  app.add_option("--rounds", options.loop.rounds, "Steps of every model in one repeat");
  app.add_option("--graph", options.graph, "shoal-train's graph");
  app.add_option("--repeats", options.repeats, "Times that all are run, in turn");
  app.add_option("--rest", options.rest_seconds, "Seconds before each run in which the machine settles");
  app.add_option("--runs", options.runs, "Which of them, for example in-ram,1/16 [all]")->delimiter(',');
  app.add_option("--dir", options.directory, "Folder on the disk to measure; new or empty [a temporary one here]");
  app.add_flag("--json", options.json, "JSON alone on stdout");
  if (!parse(app, argc, argv)) return 0;
  if (options.repeats == 0) throw Error("--repeats: at least 1", ExitCode::kUsage);
  return run(options);
}

}  // namespace
}  // namespace shoal::bench

int main(int argc, char** argv) {
  return shoal::bench::run_main("shoal-train-bench", [&] { return shoal::bench::main_of(argc, argv); });
}
