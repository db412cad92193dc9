// shoal-plan.
#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>

#include "planner/advice.h"
#include "planner/calibrate.h"
#include "planner/measure_gets.h"
#include "planner/naive.h"
#include "planner/plan_options.h"
#include "planner/plan_text.h"
#include "planner/verify.h"
#include "store/error.h"
#include "store/size_text.h"
#include "trainer/describe.h"
#include "trainer/stop_signal.h"

namespace shoal {
namespace {

// Before the work whose result goes there.
void require_writable(const char* flag, const std::filesystem::path& file) {
  const bool there = std::filesystem::exists(file);
  const std::ofstream opened(file, std::ios::app);
  if (!opened) {
    throw Error(fmt::format("{} {}: it cannot be written: {}", flag, file.string(), std::strerror(errno)),
                ExitCode::kUsage);
  }
  if (!there) std::filesystem::remove(file);
}

ExitCode sweep(const PlanOptions& options, const Planner& planner) {
  if (options.csv) require_writable("--csv", *options.csv);
  const std::vector<SweepPoint> points = run_sweep(planner, *options.sweep);
  if (options.csv) {
    std::ofstream file(*options.csv);
    file << sweep_csv(*options.sweep, points);
    file.flush();
    if (!file) throw Error(fmt::format("--csv {}: it could not be written", options.csv->string()));
  }
  if (options.json) {
    fmt::print("{}\n", sweep_json(*options.sweep, points).dump(2));
  } else {
    fmt::print("{}", sweep_text(*options.sweep, points));
  }
  return ExitCode::kOk;
}

ExitCode calibrate_here(const PlanOptions& options) {
  require_writable("--profile", options.profile);
  const Profile profile = calibrate(options.run, options.directory);
  profile.write(options.profile);
  const auto rate = [](double bytes) { return size_text(static_cast<std::uint64_t>(bytes)) + "/s"; };
  fmt::print(
      "{}, batch {}, {}: {} a local step on each of {} threads, {} more for a node; mix {} a thread\n"
      "disk: {} in rounds, read {}, write {}, {:.2f} s of a core for a GiB\n"
      "other ranks: {} through shared memory, {} one-sided; {} of a core for a record that is asked for; two ranks on "
      "a host take {:.2f} times as long for a node and meet for {} in a round\nwritten to {}\n",
      profile.model, profile.batch, profile.optimizer, duration_text(profile.step_seconds), profile.threads,
      duration_text(profile.node_seconds), rate(profile.mix_bytes_per_second), rate(profile.disk_bytes_per_second),
      rate(profile.read_bytes_per_second), rate(profile.write_bytes_per_second),
      profile.store_cpu_seconds_per_byte * (1 << 30), rate(profile.mapped_bytes_per_second),
      rate(profile.get_bytes_per_second), duration_text(profile.request_cpu_seconds), profile.ranks_slowdown,
      duration_text(profile.meeting_seconds), options.profile.string());
  return ExitCode::kOk;
}

ExitCode main_of(int argc, const char* const* argv) {
  using Action = PlanOptions::Action;
  if (argc == 3 && argv[1] == std::string_view(kMeasureGets)) {
    get_as_rank(std::strtoull(argv[2], nullptr, 10));
    return ExitCode::kOk;
  }
  const PlanCommand command = parse_plan_command(argc, argv);
  const PlanOptions& options = command.options;
  if (command.print) {
    fmt::print("{}", *command.print);
    return ExitCode::kOk;
  }
  // These have files to remove when they are stopped.
  if (options.action == Action::kCalibrate || options.action == Action::kVerify) listen_for_stop("");
  if (options.action == Action::kCalibrate) return calibrate_here(options);
  if (options.action == Action::kCompareNaive) {
    const std::vector<NaiveRow> rows = compare_naive();
    fmt::print("{}\n", options.json ? naive_json(rows).dump(2) : naive_text(rows));
    return ExitCode::kOk;
  }
  DescribedRun describe(options.run, options.machine.ranks, options.machine.hosts);
  const FoundProfile found =
      find_profile(options.profile, options.profile_given ? Asked::kYes : Asked::kNo, describe({}));
  if (!found.note.empty()) fmt::print(stderr, "shoal-plan: {}\n", found.note);
  if (options.action == Action::kVerify) {
    const Verification verification = verify_plan(options.run, options.machine, found.profile);
    fmt::print("{}\n", options.json ? verification.json().dump(2) : verification.text());
    return ExitCode::kOk;
  }
  const Planner planner(std::ref(describe), options.machine, found.profile);
  if (options.action == Action::kSweep) return sweep(options, planner);
  const RunPlan plan = planner.plan();
  const Advice advice = advise(planner, plan);
  if (options.json) {
    fmt::print("{}\n", plan_json(plan, advice).dump(2));
  } else {
    fmt::print("{}", plan_text(plan, advice, options.explain ? Formulas::kShown : Formulas::kHidden));
  }
  return plan.fits() ? ExitCode::kOk : ExitCode::kDoesNotFit;
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  try {
    return static_cast<int>(shoal::main_of(argc, argv));
  } catch (const shoal::Error& error) {
    fmt::print(stderr, "shoal-plan: {}\n", error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "shoal-plan: {}\n", error.what());
    return static_cast<int>(shoal::ExitCode::kFailure);
  }
}
