#include "planner/plan_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "store/error.h"
#include "store/size_text.h"
#include "trainer/disk_check.h"
#include "trainer/free_device_memory.h"

namespace shoal {
namespace {

constexpr const char* kDescription =
    R"(shoal-plan says, before anything is started, what a run takes: bytes per node, RAM, disk, what moves in a round,
how long it takes, whether it fits, and what to change. It takes shoal-train's flags and configuration files.)";

constexpr const char* kFooter =
    R"(Examples:
  shoal-plan --config run.toml --ram 4GiB --disk 500GB
  shoal-plan calibrate --dir /nvme --model lenet5
      measures this machine with that model, and writes shoal-profile.toml; plans that find it know times, too
  shoal-plan --nodes 100000 --sweep ram=1GiB..64GiB --csv ram.csv
  shoal-plan --nodes 100000 --ram 4GiB --verify
      runs a smaller run of the same shape and prints what was predicted and what was measured

Exit code: 0 it fits, 1 planning failed, 2 the command line or configuration is wrong, 3 it does not fit.
All other flags are shoal-train's:

)";

void require(bool condition, const std::string& message) {
  if (!condition) throw Error(message, ExitCode::kUsage);
}

// Each question has its own flags; what would be ignored is refused.
void require_only(const CLI::App& app, const char* question, std::initializer_list<std::string_view> flags) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0 || std::ranges::find(flags, option->get_name()) != flags.end()) continue;
    throw Error(fmt::format("{} takes no {}; leave it out", question, option->get_name()), ExitCode::kUsage);
  }
}

// The command as shoal-train would have got it.
TrainCommand parse_run(std::vector<std::string> arguments, bool help, unsigned ranks_here, unsigned ranks) {
  // What comes first is the program's name.
  std::vector<const char*> argv = {"shoal-plan"};
  if (help) arguments = {"--help"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return parse_train_command(static_cast<int>(argv.size()), argv.data(), {ranks_here, ranks_here, ranks});
}

}  // namespace

PlanCommand parse_plan_command(int argc, const char* const* argv) {
  PlanCommand result;
  PlanOptions& o = result.options;
  std::string disk;
  std::string device_memory;
  std::string network;
  std::string sweep;
  std::string csv;
  std::string directory;
  unsigned ranks = 1;
  unsigned hosts = 1;
  bool verify = false;
  bool compare_naive = false;

  CLI::App app(kDescription, "shoal-plan");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("shoal-plan ") + SHOAL_VERSION);
  app.allow_extras();
  app.prefix_command(false);
  app.add_option("--disk", disk,
                 "Disk that a rank's store may take [what is free in --store, shared by those who share it]")
      ->type_name("SIZE");
  app.add_option("--ranks", ranks, "MPI ranks in all; --ram and --threads are each rank's [1]");
  app.add_option("--hosts", hosts, "Machines that they run on [1]");
  app.add_option("--device-memory", device_memory, "Of the GPU that a rank computes on [what is free there]")
      ->type_name("SIZE");
  app.add_option("--network", network, "Bytes a second between hosts [1250MB]")->type_name("SIZE");
  app.add_option("--profile", o.profile, "What calibrate measured [shoal-profile.toml, if there is one for the model]")
      ->type_name("FILE");
  app.add_option("--sweep", sweep, "ram=FROM..TO or nodes=FROM..TO: a plan for each of several values")
      ->type_name("RANGE");
  app.add_option("--csv", csv, "With --sweep: write the table there as well")->type_name("FILE");
  app.add_option("--dir", directory, "calibrate: a folder on the disk to measure")->type_name("DIR");
  app.add_flag("--verify", verify, "Run a smaller run of the same shape, and compare");
  app.add_flag("--compare-naive", compare_naive,
               "What all-in-RAM designs took for four known runs, and what Shoal takes");
  app.add_flag("--explain", o.explain, "With the formula of every line");
  app.add_flag("--json", o.json, "JSON alone on stdout");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    result.print = app.help() + "\n" + *parse_run({}, true, 1, 1).print;
    return result;
  } catch (const CLI::CallForVersion&) {
    result.print = std::string("shoal-plan ") + SHOAL_VERSION + "\n";
    return result;
  } catch (const CLI::ParseError& error) {
    throw Error(fmt::format("{} (--help explains)", error.what()), ExitCode::kUsage);
  }
  std::vector<std::string> rest = app.remaining();
  if (!rest.empty() && rest.front() == "calibrate") {
    o.action = PlanOptions::Action::kCalibrate;
    rest.erase(rest.begin());
    require_only(app, "calibrate", {"--dir", "--profile"});
    require(!directory.empty(), "calibrate: give --dir DIR, a folder on the disk that the store will be on");
  } else {
    require(directory.empty(), "--dir belongs to 'shoal-plan calibrate'; the store's folder is --store");
  }
  require(!(verify && !sweep.empty()) && !(compare_naive && (verify || !sweep.empty())),
          "--sweep, --verify and --compare-naive are different questions; ask one");
  require(csv.empty() || !sweep.empty(), "--csv belongs to --sweep");
  if (compare_naive) {
    require_only(app, "--compare-naive", {"--compare-naive", "--json"});
    require(rest.empty(), fmt::format("--compare-naive is about four known runs and takes no {}; leave it out",
                                      rest.empty() ? "" : rest.front()));
  }
  require(!o.explain || (sweep.empty() && !verify), "--explain belongs to a plan, not to --sweep or --verify");
  require(ranks >= 1, "--ranks: at least 1");
  require(hosts >= 1 && hosts <= ranks, "--hosts: from 1 to the number of ranks");
  const TrainCommand run = parse_run(rest, false, (ranks + hosts - 1) / hosts, ranks);
  if (run.print) {
    result.print = run.print;
    return result;
  }
  o.run = run.options;
  o.run.quiet = true;
  require(!verify || hosts == 1, "--verify runs on this host alone");
  o.machine = Machine::here();
  o.machine.ranks = ranks;
  o.machine.hosts = hosts;
  if (disk.empty()) {
    o.machine.disks = disks_of_host(o.run, ranks, hosts);
  } else {
    o.machine.disk_bytes = parse_size(disk);
  }
  if (device_memory.empty()) {
    o.machine.device_memory_bytes = free_device_memory(o.run.device).value_or(0);
  } else {
    o.machine.device_memory_bytes = parse_size(device_memory);
  }
  if (!network.empty()) o.machine.network_bytes_per_second = static_cast<double>(parse_size(network));
  require(o.machine.network_bytes_per_second > 0, "--network: above 0");
  o.profile_given = app.count("--profile") > 0;
  o.directory = directory;
  if (!csv.empty()) o.csv = csv;
  if (!sweep.empty()) {
    o.sweep = parse_sweep(sweep);
    o.action = PlanOptions::Action::kSweep;
  }
  if (verify) o.action = PlanOptions::Action::kVerify;
  if (compare_naive) o.action = PlanOptions::Action::kCompareNaive;
  return result;
}

}  // namespace shoal
