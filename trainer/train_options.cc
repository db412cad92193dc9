#include "trainer/train_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <thread>

#include "store/error.h"
#include "store/size_text.h"
#include "trainer/algorithm.h"
#include "trainer/model.h"

namespace shoal {
namespace {

constexpr const char* kDescription =
    R"(shoal-train trains a population of models on a graph. Every node has its own weights, optimizer state and
data, and mixes weights with its neighbours. The state lives on disk; --ram is all the RAM it takes, and the
result is the same bits whatever that number is.)";

std::string footer() {
  return fmt::format(R"(Examples:
  shoal-train
      64 LeNet-5 nodes on a random 8-regular graph, 20 rounds of D-PSGD on generated data
  shoal-train --nodes 10000 --ram 2GiB --checkpoint-every 10 --out runs/large
      more nodes than fit in RAM; kill it, and go on with
  shoal-train --nodes 10000 --ram 2GiB --checkpoint-every 10 --out runs/large --resume
  shoal-train --data mnist:DIR --partition dirichlet:0.1 --graph file:EDGES --algorithm gossip --rounds 500
  mpirun -np 2 --bind-to none shoal-train --nodes 10000 --ram 1GiB
      the same result on two ranks, each with its share of the nodes and 1 GiB
  shoal-train --config run.toml --dry-run
      what it would take: bytes per node, disk, RAM; nothing is written

Algorithms (--algorithm):
{}
Models (--model):
{}
Graphs (--graph):
{}
Data (--data):
{}
Partitions (--partition):
{}
Results, in --out: config.toml, metrics.jsonl (a line per round), nodes.csv, summary.json, report.html, and with --trace
trace.json for Chrome's or Perfetto's viewer.
SIGTERM or Ctrl-C: a checkpoint is made at the end of the round, exit code 0; --resume goes on.
Exit code: 0 done, 1 it failed, 2 the command line or configuration is wrong.)",
                     algorithm_choices(), model_choices(), graph_choices(), data_set_choices(), partition_choices());
}

void require(bool condition, const std::string& message) {
  if (!condition) throw Error(message, ExitCode::kUsage);
}

std::uint64_t size_of_flag(const char* flag, const std::string& text) {
  try {
    return parse_size(text);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", flag, error.what()), ExitCode::kUsage);
  }
}

// "8-12" or "10".
TickRange parse_ticks(const std::string& text) {
  TickRange range{0, 0};
  const char* const end = text.data() + text.size();
  auto [after, error] = std::from_chars(text.data(), end, range.least);
  if (error == std::errc() && after == end) range.most = range.least;
  if (error == std::errc() && after != end && *after == '-') {
    const auto second = std::from_chars(after + 1, end, range.most);
    error = second.ec;
    after = second.ptr;
  }
  require(error == std::errc() && after == end && range.least >= 1 && range.most >= range.least,
          fmt::format("--gossip-every {}: ticks between trainings, as 8-12 or 10, at least 1", text));
  return range;
}

std::uint64_t free_ram() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  std::string unit;
  while (meminfo >> key >> kib >> unit) {
    if (key == "MemAvailable:") return kib * 1024;
  }
  throw Error("--ram: give a size; /proc/meminfo does not say what is free", ExitCode::kUsage);
}

// "2:10x".
SlowRank parse_slow_rank(const std::string& text) {
  SlowRank slow;
  const char* const end = text.data() + text.size();
  const auto rank = std::from_chars(text.data(), end, slow.rank);
  bool good = rank.ec == std::errc() && rank.ptr != end && *rank.ptr == ':';
  if (good) {
    const auto factor = std::from_chars(rank.ptr + 1, end, slow.factor);
    good = factor.ec == std::errc() && factor.ptr + 1 == end && *factor.ptr == 'x' && slow.factor >= 1 &&
           slow.factor <= 1e6;
  }
  require(good, fmt::format("--slow-rank {}: a rank and how many times as long its steps take, as 2:10x", text));
  return slow;
}

// What can't be known before all flags are read.
void complete(TrainOptions& options, bool nodes_given, unsigned ranks_here) {
  // An edge list brings its own number of nodes; one that is given must agree with it.
  if (options.graph.starts_with("file:") && !nodes_given) options.nodes = 0;
  require(options.nodes >= 1 || options.graph.starts_with("file:"), "--nodes: at least 1");
  require(options.batch >= 1 && options.batch <= 65536, "--batch: 1 to 65536");
  require(options.local_steps <= 10000, "--local-steps: at most 10000");
  require(std::isfinite(options.learning_rate) && options.learning_rate >= 0, "--lr: a number, not negative");
  require(options.optimizer.momentum >= 0 && options.optimizer.momentum < 1, "--momentum: from 0 to below 1");
  require(std::isfinite(options.optimizer.weight_decay) && options.optimizer.weight_decay >= 0,
          "--weight-decay: a number, not negative");
  require(options.optimizer.beta1 >= 0 && options.optimizer.beta1 < 1, "--beta1: from 0 to below 1");
  require(options.optimizer.beta2 >= 0 && options.optimizer.beta2 < 1, "--beta2: from 0 to below 1");
  require(std::isfinite(options.optimizer.epsilon) && options.optimizer.epsilon > 0, "--epsilon: a number above 0");
  require(!options.optimizer.nesterov || options.optimizer.momentum > 0, "--nesterov needs --momentum above 0");
  require(options.gossip_own >= 0 && options.gossip_own <= 1, "--gossip-own: from 0 to 1");
  require(options.gossip_buffer >= 1, "--gossip-buffer: at least 1");
  require(options.intra_op >= 1 && options.intra_op <= 256, "--intra-op: 1 to 256");
  require(options.eval_samples >= 1, "--eval-samples: at least 1");
  require(!(options.resume && options.overwrite), "--resume and --overwrite contradict each other");
  require(!options.out.empty(), "--out: give a folder");
  if (options.threads == 0) {
    const unsigned cores = std::clamp(std::thread::hardware_concurrency(), 1U, 256U);
    options.threads = std::max(1U, cores / options.intra_op / ranks_here);
    // While one computes there, another's copies can be under way.
    if (options.device.starts_with("cuda")) options.threads = std::max(2U, options.threads);
  }
  require(options.threads <= 256, "--threads: 1 to 256");
  if (options.store.empty()) options.store = options.out / "store";
  if (options.ram_bytes == 0) options.ram_bytes = free_ram() / 2 / ranks_here;
  require(options.max_lag >= 1, "--max-lag: at least 1");
  if (options.eval_every == 0) options.eval_every = std::max<std::uint64_t>(1, options.rounds / 10);
  // Bad text is found here, before anything is read or made.
  make_optimizer(options.optimizer);
  LearningRate(options.lr_schedule, options.learning_rate, options.warmup_rounds, options.rounds);
  const std::vector<std::string> names = algorithm_names();
  require(std::find(names.begin(), names.end(), options.algorithm) != names.end(),
          fmt::format("--algorithm {}: choose from {}", options.algorithm, fmt::join(names, ", ")));
}

// A basic string, or a literal one where escapes would be needed: CLI11 reads those as they are.
std::string quoted(const std::string& text) {
  const bool plain = text.find_first_of("\"\\") == std::string::npos;
  return plain ? fmt::format("\"{}\"", text) : fmt::format("'{}'", text);
}

std::string boolean(bool value) { return value ? "true" : "false"; }

std::string ticks_text(TickRange range) {
  return range.least == range.most ? std::to_string(range.least) : fmt::format("{}-{}", range.least, range.most);
}

const char* name(Mixing mixing) { return mixing == Mixing::kMetropolis ? "metropolis" : "uniform"; }
const char* name(DpsgdOrder order) { return order == DpsgdOrder::kCta ? "cta" : "atc"; }
const char* name(Pace pace) { return pace == Pace::kRounds ? "rounds" : "free"; }
const char* name(NeighbourPath path) { return path == NeighbourPath::kAuto ? "auto" : "one-sided"; }
const char* name(InitialModels init) { return init == InitialModels::kSame ? "same" : "independent"; }
const char* name(Augmentation augment) { return augment == Augmentation::kNone ? "none" : "flip-crop"; }

// CLI11 would wrap -1 around to the largest number, and take the largest for anything above it.
CLI::Validator whole_number() {
  return {[](std::string& text) {
            std::uint64_t value = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            const bool whole = error == std::errc() && end == text.data() + text.size();
            return whole ? std::string() : fmt::format("'{}' is not a whole number from 0 to 2^64 - 1", text);
          },
          ""};
}

std::string all_flags(const CLI::App& app) {
  std::string list;
  for (const CLI::Option* option : app.get_options()) list += (list.empty() ? "" : " ") + option->get_name();
  return list;
}

}  // namespace

std::vector<Setting> settings(const TrainOptions& o) {
  const bool limited = o.warm_bytes != std::numeric_limits<std::uint64_t>::max();
  std::vector<Setting> list = {
      {"nodes", std::to_string(o.nodes), true},
      // A cosine ends at the last round, so another number of rounds is another run.
      {"rounds", std::to_string(o.rounds), o.lr_schedule.starts_with("cosine")},
      {"seed", std::to_string(o.seed), true},
      {"graph", quoted(o.graph), true},
      {"mixing", quoted(name(o.mixing)), true},
      {"model", quoted(o.model), true},
      {"init", quoted(name(o.init)), true},
      {"data", quoted(o.data), true},
      {"partition", quoted(o.partition), true},
      {"batch", std::to_string(o.batch), true},
      {"augment", quoted(name(o.augment)), true},
      {"algorithm", quoted(o.algorithm), true},
      {"order", quoted(name(o.order)), true},
      {"gossip-every", quoted(ticks_text(o.gossip_every)), true},
      {"gossip-own", fmt::format("{}", o.gossip_own), true},
      {"gossip-buffer", std::to_string(o.gossip_buffer), true},
      {"average-buffers", boolean(o.average_buffers), true},
      {"local-steps", std::to_string(o.local_steps), true},
      {"optimizer", quoted(o.optimizer.name), true},
      {"lr", fmt::format("{}", o.learning_rate), true},
      {"lr-schedule", quoted(o.lr_schedule), true},
      {"warmup-rounds", std::to_string(o.warmup_rounds), true},
      {"momentum", fmt::format("{}", o.optimizer.momentum), true},
      {"nesterov", boolean(o.optimizer.nesterov), true},
      {"weight-decay", fmt::format("{}", o.optimizer.weight_decay), true},
      {"beta1", fmt::format("{}", o.optimizer.beta1), true},
      {"beta2", fmt::format("{}", o.optimizer.beta2), true},
      {"epsilon", fmt::format("{}", o.optimizer.epsilon), true},
      {"intra-op", std::to_string(o.intra_op), true},
      {"device", quoted(o.device), true},
      {"async", quoted(name(o.pace)), true},
      {"max-lag", std::to_string(o.max_lag), o.pace == Pace::kFree},
      {"neighbour-reads", quoted(name(o.neighbour_path)), false},
      {"out", quoted(o.out.string()), false},
      {"store", quoted(o.store.string()), false},
      {"store-io", quoted(std::string(shoal::name(o.store_io))), false},
      {"ram", quoted(fmt::format("{}B", o.ram_bytes)), false},
      {"threads", std::to_string(o.threads), false},
      {"checkpoint-every", std::to_string(o.checkpoint_every), false},
      {"eval-every", std::to_string(o.eval_every), false},
      {"eval-nodes", std::to_string(o.eval_nodes), false},
      {"eval-samples", std::to_string(o.eval_samples), false},
      {"trace", boolean(o.trace), false},
      {"strict", boolean(o.strict), false},
  };
  if (o.slow_rank.factor != 1) {
    list.push_back({"slow-rank", quoted(fmt::format("{}:{}x", o.slow_rank.rank, o.slow_rank.factor)), false});
  }
  if (!o.log_dir.empty()) list.push_back({"log-dir", quoted(o.log_dir.string()), false});
  if (!o.cold.empty()) list.push_back({"cold", quoted(o.cold.string()), false});
  if (limited) list.push_back({"warm-bytes", quoted(fmt::format("{}B", o.warm_bytes)), false});
  return list;
}

std::string to_toml(const std::vector<Setting>& list) {
  std::string text;
  for (const Setting& setting : list) text += fmt::format("{} = {}\n", setting.key, setting.value);
  return text;
}

TrainCommand parse_train_command(int argc, const char* const* argv, unsigned ranks_here) {
  TrainCommand result;
  TrainOptions& o = result.options;
  bool print_config = false;

  CLI::App app(kDescription, "shoal-train");
  app.footer(footer());
  app.set_version_flag("--version", SHOAL_VERSION);
  app.set_config("--config", "", "Read flags from a TOML file; flags on the command line win");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.option_defaults()->always_capture_default();
  const auto choice = [&](const char* flag, auto& target, const auto& map, const char* help, const char* standard) {
    app.add_option_function<std::string>(
           flag,
           [&target, map, flag](const std::string& text) {
             const auto found =
                 std::find_if(map.begin(), map.end(), [&](const auto& pair) { return pair.first == text; });
             if (found == map.end()) {
               std::string names;
               for (const auto& pair : map) names += (names.empty() ? "" : ", ") + std::string(pair.first);
               throw Error(fmt::format("{} {}: choose from {}", flag, text, names), ExitCode::kUsage);
             }
             target = found->second;
           },
           help)
        ->default_str(standard)
        ->type_name("CHOICE");
  };
  const auto size = [&](const char* flag, std::uint64_t& target, const char* help) {
    app.add_option_function<std::string>(
           flag, [&target, flag](const std::string& text) { target = size_of_flag(flag, text); }, help)
        ->type_name("SIZE");
  };

  app.add_option("--nodes", o.nodes, "Population size (file: graphs bring their own)")->check(whole_number());
  app.add_option("--rounds", o.rounds, "Rounds to train")->check(whole_number());
  app.add_option("--seed", o.seed, "Of everything random")->check(whole_number());
  app.add_option("--graph", o.graph, "Who exchanges with whom; see below");
  choice(
      "--mixing", o.mixing,
      std::vector<std::pair<std::string, Mixing>>{{"metropolis", Mixing::kMetropolis}, {"uniform", Mixing::kUniform}},
      "Mixing weights: metropolis (keeps the mean on any graph), uniform 1/(degree+1)", "metropolis");
  app.add_option("--model", o.model, "What the nodes learn; see below");
  choice("--init", o.init,
         std::vector<std::pair<std::string, InitialModels>>{{"same", InitialModels::kSame},
                                                            {"independent", InitialModels::kIndependent}},
         "First models: the same for all, or each node its own", "same");
  app.add_option("--data", o.data, "What they learn from; see below");
  app.add_option("--partition", o.partition, "How the data is divided; see below");
  app.add_option("--batch", o.batch, "Samples per local step")->check(whole_number());
  choice("--augment", o.augment,
         std::vector<std::pair<std::string, Augmentation>>{{"none", Augmentation::kNone},
                                                           {"flip-crop", Augmentation::kFlipCrop}},
         "Of training images: none, flip-crop", "none");
  app.add_option("--algorithm", o.algorithm, "See below");
  choice("--order", o.order,
         std::vector<std::pair<std::string, DpsgdOrder>>{{"cta", DpsgdOrder::kCta}, {"atc", DpsgdOrder::kAtc}},
         "dpsgd: gradient at the unmixed model (cta) or step, then mix (atc)", "cta");
  app.add_option_function<std::string>(
         "--gossip-every", [&](const std::string& text) { o.gossip_every = parse_ticks(text); },
         "gossip: ticks between a node's trainings")
      ->default_str("8-12")
      ->type_name("TICKS");
  app.add_option("--gossip-own", o.gossip_own, "gossip: the weight of the node's own model when it averages");
  app.add_option("--gossip-buffer", o.gossip_buffer, "gossip: average when this many models per neighbour have come")
      ->check(whole_number());
  app.add_flag("--average-buffers", o.average_buffers, "dpsgd: mix BatchNorm's running statistics too");
  app.add_option("--local-steps", o.local_steps, "Local steps of a node that trains in a round")->check(whole_number());
  app.add_option("--optimizer", o.optimizer.name, "sgd, adam, adamw");
  app.add_option("--lr", o.learning_rate, "Learning rate");
  app.add_option("--lr-schedule", o.lr_schedule, "constant, step:EVERY:FACTOR, cosine");
  app.add_option("--warmup-rounds", o.warmup_rounds, "Rounds in which the learning rate rises to --lr")
      ->check(whole_number());
  app.add_option("--momentum", o.optimizer.momentum, "sgd");
  app.add_flag("--nesterov", o.optimizer.nesterov, "sgd: Nesterov's momentum");
  app.add_option("--weight-decay", o.optimizer.weight_decay, "Added to the gradient; adamw: decoupled");
  app.add_option("--beta1", o.optimizer.beta1, "adam, adamw");
  app.add_option("--beta2", o.optimizer.beta2, "adam, adamw");
  app.add_option("--epsilon", o.optimizer.epsilon, "adam, adamw");

  app.add_option("--out", o.out, "Folder for the results; new, or of the run that is resumed")->type_name("DIR");
  app.add_option("--store", o.store,
                 "Folder for the nodes' state, on a fast disk [OUT/store]. It and --cold may have {rank}, {local_rank} "
                 "and {host} in them; several ranks have a folder each in it")
      ->type_name("DIR");
  app.add_option("--cold", o.cold, "Folder for the cold tier and checkpoints' metadata [STORE/cold]")->type_name("DIR");
  app.add_option_function<std::string>(
         "--store-io", [&](const std::string& text) { o.store_io = parse_io_engine(text); },
         "How slabs are read and written: auto, direct (io_uring), posix, mapped")
      ->default_str("auto")
      ->type_name("CHOICE");
  size("--warm-bytes", o.warm_bytes, "Slab bytes beyond which nodes go to the cold tier [no limit]");
  size("--ram", o.ram_bytes,
       "All the RAM for state, tables, data and buffers; LibTorch's own comes on top [half of what is free]");
  app.add_option("--threads", o.threads, "Nodes trained at the same time, per rank [cores / intra-op / ranks here]")
      ->check(whole_number());
  app.add_option("--intra-op", o.intra_op, "Threads within one node's step: for few, large models")
      ->check(whole_number());
  app.add_option("--device", o.device, "cpu, cuda, cuda:N");

  choice("--async", o.pace, std::vector<std::pair<std::string, Pace>>{{"rounds", Pace::kRounds}, {"free", Pace::kFree}},
         "Ranks: all at the end of each round (rounds: same bits every time), or each at its own pace with the newest "
         "models of the others (free: not reproducible)",
         "rounds");
  app.add_option("--max-lag", o.max_lag, "free: rounds that the fastest rank may be ahead of the slowest")
      ->check(whole_number());
  app.add_option_function<std::string>(
         "--slow-rank", [&](const std::string& text) { o.slow_rank = parse_slow_rank(text); },
         "For experiments: this rank's steps take that many times as long")
      ->type_name("RANK:FACTORx");
  choice("--neighbour-reads", o.neighbour_path,
         std::vector<std::pair<std::string, NeighbourPath>>{{"auto", NeighbourPath::kAuto},
                                                            {"one-sided", NeighbourPath::kOneSided}},
         "Models of other ranks on this host: through shared memory (auto), or as if they were on another", "auto");
  app.add_option("--log-dir", o.log_dir, "Folder for a log of every rank; only rank 0 prints")->type_name("DIR");

  app.add_option("--checkpoint-every", o.checkpoint_every,
                 "Rounds between checkpoints; 0: none, and the store is removed at the end")
      ->check(whole_number());
  app.add_flag("--resume", o.resume, "Go on from the last checkpoint")->configurable(false);
  app.add_flag("--overwrite", o.overwrite, "Delete the run that is in --out and --store first")->configurable(false);
  app.add_option("--eval-every", o.eval_every, "Rounds between evaluations [rounds / 10]")->check(whole_number());
  app.add_option("--eval-nodes", o.eval_nodes, "Nodes whose model is evaluated")->check(whole_number());
  app.add_option("--eval-samples", o.eval_samples, "Test images they are evaluated on")->check(whole_number());
  app.add_flag("--trace", o.trace, "Write OUT/trace.json: what each worker did when");
  app.add_flag("--strict", o.strict, "A mode that is not what was asked for (io_uring, O_DIRECT...) is an error");
  app.add_flag("--quiet", o.quiet, "No progress");
  app.add_flag("--json", o.json, "Print the summary as JSON alone on stdout");
  app.add_flag("--dry-run", o.dry_run, "Say what it would take and stop")->configurable(false);
  app.add_flag("--print-config", print_config, "Print the configuration and exit")->configurable(false);

  try {
    app.parse(argc, argv);
    complete(o, app.count("--nodes") > 0, ranks_here);
  } catch (const CLI::CallForHelp&) {
    result.print = app.help();
    return result;
  } catch (const CLI::CallForVersion&) {
    result.print = std::string("shoal-train ") + SHOAL_VERSION + "\n";
    return result;
  } catch (const CLI::ExtrasError& error) {
    throw Error(fmt::format("{}. The flags are {}", error.what(), all_flags(app)), ExitCode::kUsage);
  } catch (const CLI::ParseError& error) {
    throw Error(fmt::format("{} (--help explains)", error.what()), ExitCode::kUsage);
  }
  if (print_config) result.print = to_toml(settings(o));
  return result;
}

}  // namespace shoal
