// shoal-rank-bench: two ranks against one with two threads, and reads of other ranks' records against a bare MPI_Rget
// loop over the same window.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/bench_directory.h"
#include "bench/child_process.h"
#include "bench/command_line.h"
#include "bench/measurement.h"
#include "bench/rank_reads.h"
#include "bench/train_run.h"
#include "store/error.h"

namespace shoal::bench {
namespace {

using Json = nlohmann::json;

constexpr const char* kDescription =
    R"(shoal-rank-bench measures what several ranks cost on this machine.

  training   shoal-train, the same work: 1 rank with 2 threads, and 2 ranks with 1 thread each
  reads      records of another rank: through the shared mapping, with MPI_Rget, and both against bare loops of
             MPI_Rget over the same window

With --reads it measures reads alone, as one of two ranks that a launcher starts: mpirun -np 2 shoal-rank-bench --reads,
on one host or on two.

All are run --repeats times in turn, training in one order and in the other, each after a rest of --rest seconds (see
shoal-train-bench --help); the figures are medians, and medians of the ratios run by run.)";

struct Options {
  std::string model = "lenet5";
  unsigned nodes = 400;
  unsigned rounds = 4;
  std::string graph = "random-regular:8";
  std::string ram = "4GiB";
  unsigned repeats = 5;
  unsigned rest_seconds = 15;
  std::optional<std::filesystem::path> directory;
  bool reads_only = false;  // this process is a rank of the second part
};

std::vector<std::string> mpirun(unsigned ranks) {
  return {"mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", std::to_string(ranks)};
}

Json train(const Options& options, unsigned ranks, const std::filesystem::path& folder) {
  return train_run(
      {"--model", options.model, "--nodes", std::to_string(options.nodes), "--rounds", std::to_string(options.rounds),
       "--graph", options.graph, "--ram", options.ram, "--threads", std::to_string(2 / ranks)},
      folder, ranks > 1 ? mpirun(ranks) : std::vector<std::string>());
}

void compare_training(const Options& options, const std::filesystem::path& folder) {
  std::map<unsigned, std::vector<double>> speeds;
  std::vector<double> ratios;
  std::map<unsigned, Json> last;
  for (unsigned repeat = 0; repeat < options.repeats; ++repeat) {
    for (const unsigned turn : {1U, 2U}) {
      const unsigned ranks = repeat % 2 == 0 ? turn : 3 - turn;
      ::sleep(options.rest_seconds);
      last[ranks] = train(options, ranks, folder);
      speeds[ranks].push_back(last[ranks]["node_steps_per_second"].get<double>());
      fmt::print(stderr, "{}/{} {} x {} {:8.1f} node-steps/s\n", repeat + 1, options.repeats, ranks, 2 / ranks,
                 speeds[ranks].back());
    }
    ratios.push_back(speeds[2].back() / speeds[1].back());
    if (last[1]["state_hash"] != last[2]["state_hash"]) throw Error("one and two ranks computed different states");
  }
  fmt::print("{:<22}{:>14}{:>8}{:>10}{:>8}{:>10}{:>13}{:>12}\n", "training", "node-steps/s", "ratio", "compute", "mix",
             "store", "neighbours", "remote");
  for (const unsigned ranks : {1U, 2U}) {
    const Json& s = last[ranks];
    const double rounds = options.rounds;
    fmt::print("{:<22}{:>14.1f}{:>8.3f}{:>8.3f} s{:>6.3f} s{:>8.3f} s{:>11.3f} s{:>10.1f} MB\n",
               fmt::format("{} rank{} x {} thread{}", ranks, ranks > 1 ? "s" : "", 2 / ranks, ranks > 1 ? "" : "s"),
               median(speeds[ranks]), ranks == 1 ? 1.0 : median(ratios), s["compute_seconds"].get<double>() / rounds,
               s["mix_seconds"].get<double>() / rounds, s["stall_seconds"]["store"].get<double>() / rounds,
               s["stall_seconds"]["neighbours"].get<double>() / rounds, s["remote_bytes"].get<double>() / rounds / 1e6);
  }
  fmt::print("(seconds and bytes: per round, of the last repeat)\n\n");
}

int read_as_rank(const Options& options) {
  const std::vector<ReadSpeeds> paths = measure_reads(options.repeats);
  if (paths.empty()) return 0;  // another rank prints them
  fmt::print("{:<22}{:>8}{:>22}{:>8}{:>18}{:>8}\n", "reads of 247 KB", "GB/s", "MPI_Rget, one by one", "ratio",
             "16 under way", "ratio");
  for (const ReadSpeeds& speeds : paths) {
    fmt::print("{:<22}{:>8.1f}{:>22.1f}{:>8.3f}{:>18.1f}{:>8.3f}\n", speeds.path, speeds.reads, speeds.one,
               speeds.to_one, speeds.many, speeds.to_many);
  }
  return 0;
}

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app(kDescription, "shoal-rank-bench");
  app.option_defaults()->always_capture_default();
  app.add_option("--model", options.model, "shoal-train's");
  app.add_option("--nodes", options.nodes, "shoal-train's");
  app.add_option("--rounds", options.rounds, "shoal-train's");
  app.add_option("--graph", options.graph, "shoal-train's");
  app.add_option("--ram", options.ram, "shoal-train's, of each rank");
  app.add_option("--repeats", options.repeats, "Times that everything is run, in turn");
  app.add_option("--rest", options.rest_seconds, "Seconds before each training in which the machine settles");
  app.add_option("--dir", options.directory, "Folder to work in [a temporary one]");
  app.add_flag("--reads", options.reads_only, "Be one of two ranks, and measure reads alone");
  if (!parse(app, argc, argv)) return 0;
  if (options.repeats == 0) throw Error("--repeats: at least 1", ExitCode::kUsage);
  if (options.reads_only) return read_as_rank(options);
  throw_on_interrupt();
  const BenchDirectory directory(options.directory);
  compare_training(options, directory.path() / "run");
  std::vector<std::string> command = mpirun(2);
  command.insert(command.end(), {this_program().string(), "--reads", "--repeats", std::to_string(options.repeats)});
  fmt::print("{}", run_program(command));
  return 0;
}

}  // namespace
}  // namespace shoal::bench

int main(int argc, char** argv) {
  return shoal::bench::run_main("shoal-rank-bench", [&] { return shoal::bench::main_of(argc, argv); });
}
