// shoal-train.
#include <fmt/format.h>

#include <exception>
#include <functional>

#include "comm/communicator.h"
#include "planner/advice.h"
#include "planner/plan_text.h"
#include "store/error.h"
#include "store/size_text.h"
#include "trainer/describe.h"
#include "trainer/disk_check.h"
#include "trainer/free_device_memory.h"
#include "trainer/run_files.h"
#include "trainer/stop_signal.h"
#include "trainer/train_options.h"
#include "trainer/training.h"

namespace shoal {
namespace {

std::string answer_to_stop(bool alone) {
  return std::string("shoal-train: the round, or the creation of nodes, ends first; then a checkpoint is made") +
         (alone ? ". A second SIGTERM or Ctrl-C ends the run now, without one"
                : ", unless the launcher kills the ranks before that: mpirun does so a second after SIGTERM, Ctrl-C or "
                  "the loss of a rank, and not after SIGUSR1");
}

void print_summary(const nlohmann::json& s, const TrainOptions& options) {
  const auto percent = [](const nlohmann::json& value) {
    return value.is_null() ? std::string("-") : fmt::format("{:.2f} %", 100 * value.get<double>());
  };
  fmt::print("{} node-steps in {:.1f} s, {:.1f} a second; accuracy {} (nodes), {} (mean model)\n",
             s["node_steps"].get<std::uint64_t>(), s["training_seconds"].get<double>(),
             s["node_steps_per_second"].get<double>(), percent(s["accuracy_mean"]), percent(s["accuracy_mean_model"]));
  const auto bytes = [&](const char* key) { return size_text(s[key].get<std::uint64_t>()); };
  fmt::print("read {}, wrote {}{}; peak RSS {} with --ram {}\n", bytes("bytes_read"), bytes("bytes_written"),
             options.checkpoint_every > 0 ? fmt::format(" ({} by checkpoints)", bytes("checkpoint_bytes")) : "",
             bytes("peak_rss_bytes"), size_text(options.ram_bytes));
  if (s["ranks"].get<unsigned>() > 1 && s.contains("remote")) {
    const auto& remote = s["remote"];
    const auto share = [&](const char* key) {
      const auto all = remote["bytes"].get<double>();
      return all > 0 ? 100 * remote[key].get<double>() / all : 0;
    };
    fmt::print(
        "from other ranks {}, at least {}: {:.0f} % through shared memory, {:.0f} % one-sided, {:.0f} % by request\n",
        size_text(remote["bytes"].get<std::uint64_t>()), size_text(remote["lower_bound_bytes"].get<std::uint64_t>()),
        share("shared_memory_bytes"), share("one_sided_bytes"), share("requested_bytes"));
    if (s.contains("staleness")) {
      fmt::print("models read were {:.2f} rounds old in the mean, {} at most\n", s["staleness"]["mean"].get<double>(),
                 s["staleness"]["max"].get<std::uint64_t>());
    }
  }
  const auto& stall = s["stall_seconds"];
  fmt::print(
      "waiting for store {:.1f} s, of that for write-back {:.1f} s; for neighbours {:.1f} s; ready nodes waited "
      "for compute {:.1f} s\n",
      stall["store"].get<double>(), stall["write_back"].get<double>(), stall["neighbours"].get<double>(),
      stall["compute"].get<double>());
  fmt::print("state_hash {}\n", s["state_hash"].get<std::string>());
  fmt::print("results in {}: open report.html; metrics.jsonl, nodes.csv, summary.json\n", options.out.string());
}

// What shoal-plan prints for the same flags.
ExitCode print_plan(const TrainOptions& options, const Communicator& ranks) {
  DescribedRun describe(options, ranks.size(), ranks.hosts());
  const FoundProfile found = find_profile(kDefaultProfile, Asked::kNo, describe({}));
  Machine machine = Machine::here();
  machine.disks = disks_of_host(options, ranks.size(), ranks.hosts());
  machine.ranks = ranks.size();
  machine.hosts = ranks.hosts();
  machine.device_memory_bytes = free_device_memory(options.device).value_or(0);
  const Planner planner(std::ref(describe), machine, found.profile);
  const RunPlan plan = planner.plan();
  const Advice advice = advise(planner, plan);
  fmt::print("{}", options.json ? plan_json(plan, advice).dump(2) + "\n" : plan_text(plan, advice, Formulas::kHidden));
  return plan.fits() ? ExitCode::kOk : ExitCode::kDoesNotFit;
}

ExitCode main_of(int argc, const char* const* argv, Communicator& ranks) {
  const RanksHere here = {ranks.local_size(), ranks.on_these_cores(), ranks.size()};
  const TrainCommand command = parse_train_command(argc, argv, here);
  const TrainOptions& options = command.options;
  if (command.print) {
    if (ranks.first()) fmt::print("{}", *command.print);
    return ExitCode::kOk;
  }
  if (options.dry_run) return ranks.first() ? print_plan(options, ranks) : ExitCode::kOk;
  // Ranks at their own pace make no checkpoints; one alone runs in rounds.
  const bool in_rounds = options.pace == Pace::kRounds || ranks.alone();
  if (in_rounds) listen_for_stop(ranks.first() ? answer_to_stop(ranks.alone()) : "");
  if (ranks.first()) RunFiles::check(options);
  Training training(options, ranks);
  const TrainingResult result = training.run();
  if (!ranks.first()) return ExitCode::kOk;
  if (result.stopped) {
    fmt::print(stderr, "stopped after {} of {} rounds; {}. Give the same flags and --resume to go on\n",
               result.rounds_done, options.rounds, result.checkpoint);
  } else if (options.json) {
    fmt::print("{}\n", result.summary.dump(2));
  } else {
    print_summary(result.summary, options);
  }
  return ExitCode::kOk;
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  try {
    shoal::Communicator ranks;
    shoal::ExitCode code = shoal::ExitCode::kFailure;
    try {
      return static_cast<int>(shoal::main_of(argc, argv, ranks));
    } catch (const shoal::Error& error) {
      code = error.exit_code();
      ranks.fail(fmt::format("shoal-train: {}", error.what()), code);
    } catch (const std::exception& error) {
      ranks.fail(fmt::format("shoal-train: {}", error.what()), code);
    }
    return static_cast<int>(code);
  } catch (const std::exception& error) {
    fmt::print(stderr, "shoal-train: {}\n", error.what());
    return static_cast<int>(shoal::ExitCode::kFailure);
  }
}
