#include "bench/bench_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "bench/engine_kinds.h"
#include "bench/layouts.h"
#include "store/error.h"
#include "store/size_text.h"
#include "store/store_options.h"
#include "trainer/option_set.h"

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
                measured round and after the last; medians, and the fastest of fio's patterns, random and sequential,
                and of the depths that Shoal has
  p50, p99      of one operation: from a worker's asking for its next node to its being done with it, disk waits included
  peak RSS      of the engine's process; for Shoal it must be within the RAM number + 64 MiB, or the exit code is 1

Exit code: 0 all went well, 1 something failed, 2 the command line is wrong.)";

void require(bool condition, const std::string& message) {
  if (!condition) throw Error(message, ExitCode::kUsage);
}

// What can't be known before all options are read.
void complete(BenchOptions& options, const std::vector<std::string>& verbs, bool ram_given) {
  require(!options.directory || !options.directory->empty(), "--dir: give a folder");
  options.layout = parse_layout(options.layout_name);
  options.verbs.clear();
  for (const std::string& verb : verbs) options.verbs.push_back(parse_verb(verb));
  require(!options.verbs.empty(), fmt::format("--workload: choose from {}", verb_choices()));
  require(!options.engines.empty(), fmt::format("--engine: choose from {}", engine_choices()));
  for (const std::string& engine : options.engines) {
    require(is_engine(engine), fmt::format("--engine {}: choose from {}", engine, engine_choices()));
  }
  require(options.degree < options.nodes, fmt::format("--degree {}: a node of {} has only {} others", options.degree,
                                                      options.nodes, options.nodes - 1));

  const bool any_shoal = options.tune || std::any_of(options.engines.begin(), options.engines.end(), is_shoal);
  const std::uint64_t minimum = any_shoal ? shoal_minimum_ram(options.engine_options(".")) : 0;
  if (!ram_given) options.ram_bytes = std::max(options.state_bytes() / 16, minimum);
  require(options.ram_bytes >= minimum,
          fmt::format("--ram {}: the store needs at least {} for {} nodes of this layout and degree",
                      size_text(options.ram_bytes), size_text(minimum), options.nodes));
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');) words.push_back(word);
  return words;
}

void declare_list(OptionSet& set, const std::string& name, std::vector<std::string>& target, const std::string& help) {
  OptionForm form = text_option(name, "", "LIST", {}, help);
  form.kind = ValueKind::kTexts;
  set.add(
      std::move(form), [&target](const std::string& text) { target = words_of(text); },
      [&target] { return fmt::format("{}", fmt::join(target, ",")); });
}

void declare(OptionSet& set, BenchOptions& o, std::vector<std::string>& verbs) {
  constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
  set.whole("nodes", o.nodes, "Population size", 2);
  set.text("layout", o.layout_name, fmt::format("What a node's state is: {}", kLayoutChoices));
  set.whole("degree", o.degree, "Neighbours that a node reads in gossip-round");
  set.size("ram", o.ram_bytes, 0, "The RAM number, for example 4GiB [a sixteenth of the state]");
  set.add(
      text_option("dir", "", "PATH", {}, "Folder on the disk to measure; new or empty [a temporary one here]"),
      [&o](const std::string& text) { o.directory = text; }, [&o] { return o.directory.value_or("").string(); });
  declare_list(set, "engine", o.engines, fmt::format("Engines, run in turn: {}", engine_choices()));
  declare_list(set, "workload", verbs, fmt::format("Workloads, run in turn: {}", verb_choices()));
  set.whole("rounds", o.rounds, "Measured rounds per workload", 1);
  set.whole("warmup", o.warmup, "Rounds before them that are not measured");
  set.whole("seed", o.seed, "Of contents and graph");
  set.whole("threads", o.threads, "Worker threads, besides the store's own", 1, 256);
  set.whole("queue-depth", o.queue_depth,
            fmt::format("Shoal: requests in flight; also fio's depth [{}, and {} while steps wait for a thread]",
                        StoreOptions().queue_depth, StoreOptions().relaxed_queue_depth),
            1, 4096);
  set.whole("submit-batch", o.submit_batch, "Shoal: requests per system call, at most", 1, 4096);
  set.size("prefetch-bytes", o.prefetch_bytes, 0, "Shoal: read ahead of use, at most [the store's choice]");
  set.size("warm-bytes", o.warm_bytes, kUnlimited,
           "Shoal: slab bytes beyond which nodes go to the cold tier [no limit]");
  set.flag("json", o.json, "Print JSON alone on stdout");
  set.flag("histogram", o.histogram, "Also print how operation times are distributed");
  set.flag("calibrate", o.calibrate, "Compare with fio, for the shoal engines; needs fio installed");
  set.flag("tune", o.tune, "Search I/O settings with the stream workload and print a config fragment");
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
  options.threads = std::clamp(std::thread::hardware_concurrency(), 1U, 256U);
  OptionSet set;
  declare(set, options, verbs);
  result.print = set.parse({"shoal-store-bench", SHOAL_VERSION, kDescription, kFooter}, argc, argv);
  if (result.print) return result;
  complete(options, verbs, set.given("ram"));
  if (set.print_config()) result.print = to_toml(set.settings());
  return result;
}

}  // namespace shoal::bench
