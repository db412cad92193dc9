#include "bench/bench_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <thread>

#include "bench/engine_kinds.h"
#include "bench/layouts.h"
#include "store/error.h"
#include "store/size_text.h"

namespace shoal::bench {
namespace {

constexpr const char* kDescription =
    R"(shoal-store-bench measures Shoal's store, and what one would use instead of it, on this machine.

It makes a population of nodes, each with a public and a private record, in a folder that it removes
afterwards, and runs workloads over them with a fixed amount of RAM. Contents are checked all the time.)";

constexpr const char* kFooter =
    R"(Examples:
  shoal-store-bench
      2,000 LeNet-5 nodes with momentum, RAM for 1/16 of them, in a temporary folder here
  shoal-store-bench --nodes 8000 --engine shoal,rocksdb,mmap,files --dir /nvme/bench
      the store against three alternatives
  shoal-store-bench --nodes 8000 --workload stream --calibrate
      and against what fio gets out of the same disk with the same mix of reads and writes
  shoal-store-bench --layout 1MiB:2MiB --ram 256MiB --workload fill,gossip-round,checkpoint,restore,verify --json
      other record sizes, other verbs, JSON alone on stdout
  shoal-store-bench --tune > store.toml && shoal-store-bench --config store.toml
      look for the best I/O settings of this disk, then use them

Workloads:
  fill          every record is made, once, in an empty store
  stream        every node once: its records read, changed in every byte, written
  gossip-round  the same, with the public records of --degree random neighbours mixed in
  random-read   one public record of a random node, as often as there are nodes
  checkpoint    make all durable, after a round that changed all (which is not measured)
  restore       open again as of the last checkpoint
  demote        a quarter of the nodes to the cold tier; promote: the same nodes back
  verify        read and check everything

Engines:
  shoal         the store, io_uring and O_DIRECT where there are; shoal-posix, shoal-mapped: its other devices
  rocksdb       a tuned RocksDB alone: no WAL, direct I/O, block cache and memtables of the RAM number, MultiGet
  mmap          one mapped file, the kernel's own policy; mmap-advised: it is told which records a step will need
  files         one file per node and part, through the page cache
Each runs in its own process, in a memory cgroup of the RAM number + 64 MiB where that is allowed, so that page
cache counts as RAM for all. A round's time includes what it takes to get its data out of the process: msync, syncfs,
flush; Shoal's O_DIRECT writes are on the device already.

Columns (JSON has the same and more, per round):
  seconds       median over --rounds, [least .. most]
  GB/s          logical: payload bytes that the workload read and wrote, each use counted, over seconds
  device GB/s   bytes of /proc/self/io that this process read from and wrote to storage, over seconds
  x bound       device bytes over the least that any policy could move with this RAM and these plans
  x fio         device GB/s over fio's (--calibrate): io_uring, direct, same block size, depth and mix, before every
                measured round and after the last; medians, and the faster of fio's random and sequential patterns
  p50, p99      of one operation: from a worker's asking for its next node to its being done with it, disk waits included
  peak RSS      of the engine's process; for Shoal it must be within the RAM number + 64 MiB, or the exit code is 1

Exit code: 0 all went well, 1 something failed, 2 the command line is wrong.)";

std::uint64_t size_of_flag(const char* flag, const std::string& text) {
  try {
    return parse_size(text);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", flag, error.what()), ExitCode::kUsage);
  }
}

void require(bool condition, const std::string& message) {
  if (!condition) throw Error(message, ExitCode::kUsage);
}

// What can't be known before all flags are read.
void complete(BenchOptions& options, const std::vector<std::string>& verbs) {
  if (options.directory && options.directory->empty()) options.directory.reset();  // as --print-config writes it
  options.layout = parse_layout(options.layout_name);
  options.verbs.clear();
  for (const std::string& verb : verbs) options.verbs.push_back(parse_verb(verb));
  require(!options.verbs.empty(), fmt::format("--workload: choose from {}", verb_choices()));
  require(!options.engines.empty(), fmt::format("--engine: choose from {}", engine_choices()));
  for (const std::string& engine : options.engines) {
    require(is_engine(engine), fmt::format("there is no engine '{}'; choose from {}", engine, engine_choices()));
  }
  require(options.nodes >= 2, "--nodes: at least 2");
  require(options.degree < options.nodes, fmt::format("--degree {}: a node of {} has only {} others", options.degree,
                                                      options.nodes, options.nodes - 1));
  require(options.rounds >= 1, "--rounds: at least 1");
  require(options.threads >= 1 && options.threads <= 256, "--threads: 1 to 256");
  require(options.queue_depth >= 1 && options.queue_depth <= 4096, "--queue-depth: 1 to 4096");
  require(options.submit_batch >= 1 && options.submit_batch <= 4096, "--submit-batch: 1 to 4096");

  const bool any_shoal = options.tune || std::any_of(options.engines.begin(), options.engines.end(), is_shoal);
  const std::uint64_t minimum = any_shoal ? shoal_minimum_ram(options.engine_options(".")) : 0;
  if (options.ram_bytes == 0) options.ram_bytes = std::max(options.state_bytes() / 16, minimum);
  require(options.ram_bytes >= minimum,
          fmt::format("--ram {}: the store needs at least {} for {} nodes of this layout and degree",
                      size_text(options.ram_bytes), size_text(minimum), options.nodes));
}

std::string all_flags(const CLI::App& app) {
  std::string list;
  for (const CLI::Option* option : app.get_options()) {
    if (!list.empty()) list += " ";
    list += option->get_name();
  }
  return list;
}

}  // namespace

EngineOptions BenchOptions::engine_options(const std::filesystem::path& engine_directory) const {
  EngineOptions result;
  result.directory = engine_directory;
  result.layout = layout;
  result.nodes = nodes;
  result.degree = degree;
  result.ram_bytes = ram_bytes;
  result.warm_bytes = warm_bytes;
  result.threads = threads;
  result.queue_depth = queue_depth;
  result.submit_batch = submit_batch;
  result.prefetch_bytes = prefetch_bytes;
  return result;
}

CommandLine parse_command_line(int argc, const char* const* argv) {
  CommandLine result;
  BenchOptions& options = result.options;
  std::vector<std::string> verbs = {"fill", "stream", "gossip-round"};
  bool print_config = false;
  options.threads = std::clamp(std::thread::hardware_concurrency(), 1U, 256U);

  CLI::App app(kDescription, "shoal-store-bench");
  app.footer(kFooter);
  app.set_version_flag("--version", SHOAL_VERSION);
  app.set_config("--config", "", "Read flags from a TOML file; flags on the command line win");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.option_defaults()->always_capture_default();

  app.add_option("--nodes", options.nodes, "Population size");
  app.add_option("--layout", options.layout_name, fmt::format("What a node's state is: {}", kLayoutChoices));
  app.add_option("--degree", options.degree, "Neighbours that a node reads in gossip-round");
  app.add_option_function<std::string>(
         "--ram", [&](const std::string& text) { options.ram_bytes = size_of_flag("--ram", text); },
         "The RAM number, for example 4GiB [a sixteenth of the state]")
      ->type_name("SIZE");
  app.add_option("--dir", options.directory, "Folder on the disk to measure; new or empty [a temporary one here]")
      ->type_name("PATH");
  app.add_option("--engine", options.engines, fmt::format("Engines, run in turn: {}", engine_choices()))
      ->delimiter(',')
      ->default_str("shoal")
      ->type_name("LIST");
  app.add_option("--workload", verbs, fmt::format("Workloads, run in turn: {}", verb_choices()))
      ->delimiter(',')
      ->default_str("fill,stream,gossip-round")
      ->type_name("LIST");
  app.add_option("--rounds", options.rounds, "Measured rounds per workload");
  app.add_option("--warmup", options.warmup, "Rounds before them that are not measured");
  app.add_option("--seed", options.seed, "Of contents and graph");
  app.add_option("--threads", options.threads, "Worker threads, besides the store's own");
  app.add_option("--queue-depth", options.queue_depth, "Shoal: requests in flight; also fio's depth");
  app.add_option("--submit-batch", options.submit_batch, "Shoal: requests per system call, at most");
  app.add_option_function<std::string>(
         "--prefetch-bytes",
         [&](const std::string& text) { options.prefetch_bytes = size_of_flag("--prefetch-bytes", text); },
         "Shoal: read ahead of use, at most [the store's choice]")
      ->type_name("SIZE");
  app.add_option_function<std::string>(
         "--warm-bytes", [&](const std::string& text) { options.warm_bytes = size_of_flag("--warm-bytes", text); },
         "Shoal: slab bytes beyond which nodes go to the cold tier [no limit]")
      ->type_name("SIZE");
  app.add_flag("--json", options.json, "Print JSON alone on stdout");
  app.add_flag("--histogram", options.histogram, "Also print how operation times are distributed");
  app.add_flag("--calibrate", options.calibrate, "Compare with fio, for the shoal engines; needs fio installed");
  app.add_flag("--tune", options.tune, "Search I/O settings with the stream workload and print a config fragment");
  app.add_flag("--print-config", print_config, "Print the configuration and exit")->configurable(false);

  try {
    app.parse(argc, argv);
    complete(options, verbs);
  } catch (const CLI::CallForHelp&) {
    result.print = app.help();
    return result;
  } catch (const CLI::CallForVersion&) {
    result.print = std::string("shoal-store-bench ") + SHOAL_VERSION + "\n";
    return result;
  } catch (const CLI::ExtrasError& error) {
    throw Error(fmt::format("{}. The flags are {}", error.what(), all_flags(app)), ExitCode::kUsage);
  } catch (const CLI::ParseError& error) {
    throw Error(fmt::format("{} (--help explains)", error.what()), ExitCode::kUsage);
  }
  if (print_config) result.print = app.config_to_str(true);
  return result;
}

}  // namespace shoal::bench
