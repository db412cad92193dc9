#include "trainer/train_options.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "store/error.h"
#include "store/size_text.h"
#include "trainer/algorithm.h"
#include "trainer/free_ram.h"
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
      what it would take, as shoal-plan says it; nothing is written

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
Results, in --out:
  report.html      the run at a glance, for a browser
  metrics.jsonl    a line per round: loss, consensus distance, accuracy, speed, tier hits, bytes, stalls
  nodes.csv        a line per node: degree, loss, accuracy, updates, version
  summary.json     figures of the whole run, its state_hash and its memory by purpose
  config.toml      every setting, for --config
  node_names.csv   with --graph file: what each node was called there
  trace.json       with --trace, for Chrome's or Perfetto's viewer: all ranks, each a process there
  stores.json      where the nodes' state is; by default in store/, kept with --checkpoint-every
SIGTERM, Ctrl-C or SIGUSR1: a checkpoint is made at the end of the round, exit code 0; --resume goes on. (mpirun kills
its ranks a second after SIGTERM or Ctrl-C; send it SIGUSR1.) A second SIGTERM or Ctrl-C ends the run at once.
Several ranks with --async free make no checkpoints: the first signal ends them at once.
Exit code: 0 done, 1 it failed, 2 the command line or configuration is wrong, 3 --dry-run: it does not fit.)",
                     algorithm_choices(), model_choices(), graph_choices(), data_set_choices(), partition_choices());
}

void require(bool condition, const std::string& message) {
  if (!condition) throw Error(message, ExitCode::kUsage);
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
  require(good, "a rank and how many times as long its steps take, as 2:10x");
  return slow;
}

std::string slow_rank_text(const SlowRank& slow) {
  return slow.factor == 1 ? std::string() : fmt::format("{}:{}x", slow.rank, slow.factor);
}

std::string schedule_text(const std::string& text) {
  const LearningRate checked(text, 0, 0, 1);
  return text;
}

constexpr RealRange kNotNegative = {};
constexpr RealRange kBelowOne = {.least = 0, .most = 1, .most_itself = false};
constexpr RealRange kAboveZero = {.least = 0, .least_itself = false};

void declare_computation(OptionSet& set, TrainOptions& o) {
  set.section("What is computed", true);
  set.whole("nodes", o.nodes, "Population size (file: graphs bring their own)", 1, kNoNode - 1);
  // A cosine ends at the last round, so another number of rounds is another run.
  set.whole("rounds", o.rounds, "Rounds to train").changes_result(o.lr_schedule.starts_with("cosine"));
  set.whole("seed", o.seed, "Of everything random");
  set.text("graph", o.graph, "Who exchanges with whom; see below");
  set.text("model", o.model, "What the nodes learn; see below");
  set.choice("init", o.init, {{"same", InitialModels::kSame}, {"independent", InitialModels::kIndependent}},
             "First models: the same for all, or each node its own");
  set.text("data", o.data, "What they learn from; see below");
  set.text("partition", o.partition, "How the data is divided; see below");
  set.whole("batch", o.batch, "Samples per local step", 1, 65536);
  set.choice("augment", o.augment, {{"none", Augmentation::kNone}, {"flip-crop", Augmentation::kFlipCrop}},
             "Of training images: none, flip-crop");
  set.choice("algorithm", o.algorithm, algorithm_names(), "See below");
  set.whole("local-steps", o.local_steps, "Local steps of a node that trains in a round", 0, 10000);
  set.choice("optimizer", o.optimizer.name, optimizer_names(), "sgd, adam, adamw");
  set.real("lr", o.learning_rate, kNotNegative, "Learning rate");
  set.text("lr-schedule", o.lr_schedule, "constant, step:EVERY:FACTOR, cosine", schedule_text);
  set.whole("warmup-rounds", o.warmup_rounds, "Rounds in which the learning rate rises to --lr");
  set.real("momentum", o.optimizer.momentum, kBelowOne, "sgd").only_for("optimizer", "sgd");
  set.flag("nesterov", o.optimizer.nesterov, "sgd: Nesterov's momentum").only_for("optimizer", "sgd");
  set.real("weight-decay", o.optimizer.weight_decay, kNotNegative, "Added to the gradient; adamw: decoupled");
  const auto only_for_adam = [](Option& option) {
    option.only_for("optimizer", "adam").only_for("optimizer", "adamw");
  };
  only_for_adam(set.real("beta1", o.optimizer.beta1, kBelowOne, "adam, adamw"));
  only_for_adam(set.real("beta2", o.optimizer.beta2, kBelowOne, "adam, adamw"));
  only_for_adam(set.real("epsilon", o.optimizer.epsilon, kAboveZero, "adam, adamw"));
  set.whole("intra-op", o.intra_op, "Threads within one node's step: for few, large models", 1, 256);
  set.text("device", o.device, "cpu, cuda, cuda:N (with --threads 1 its copies and its computing take turns)");
  set.choice("async", o.pace, {{"rounds", Pace::kRounds}, {"free", Pace::kFree}},
             "Ranks: all at the end of each round (rounds: same bits every time), or each at its own pace with the "
             "newest models of the others (free: not reproducible)");
  set.whole("max-lag", o.max_lag, "free: rounds that the fastest rank may be ahead of the slowest", 1)
      .only_for("async", "free");
}

// What the algorithms' own files have registered.
void declare_algorithm_options(OptionSet& set, TrainOptions& o) {
  std::map<std::string, std::vector<std::string>> owners;
  for (const auto& [algorithm, entry] : algorithms()) {
    for (const OptionForm& form : entry.options) owners[form.name].push_back(algorithm);
  }
  for (const auto& [name, of] : owners) {
    const OptionForm& form = *std::ranges::find(algorithms().at(of.front()).options, name, &OptionForm::name);
    Option& option = set.add(
        form, [&o, key = name](const std::string& text) { o.algorithm_options[key] = text; },
        [&o, key = name] { return algorithm_option(o, key); });
    option.in_group(fmt::format("Algorithm {}", fmt::join(of, ", ")));
    for (const std::string& algorithm : of) option.only_for("algorithm", algorithm);
  }
}

void declare_place(OptionSet& set, TrainOptions& o) {
  set.section("Where and with what", false);
  set.choice("neighbour-reads", o.neighbour_path,
             {{"auto", NeighbourPath::kAuto}, {"one-sided", NeighbourPath::kOneSided}},
             "Models of other ranks on this host: through shared memory (auto), or as if they were on another");
  set.path("out", o.out, "Folder for the results; new, or of the run that is resumed");
  set.path("store", o.store,
           "Folder for the nodes' state, on a fast disk [OUT/store]. It and --cold may have {rank}, {local_rank} "
           "and {host} in them; several ranks have a folder each in it");
  set.path("cold", o.cold, "Folder for the cold tier and checkpoints' metadata [STORE/cold]");
  const auto io_engine = [](const std::string& text) { return std::string(name(parse_io_engine(text))); };
  set.add(
      text_option("store-io", "", "CHOICE", io_engine,
                  "How slabs are read and written: auto, direct (io_uring), posix, mapped"),
      [&o](const std::string& text) { o.store_io = parse_io_engine(text); },
      [&o] { return std::string(name(o.store_io)); });
  set.size("warm-bytes", o.warm_bytes, std::numeric_limits<std::uint64_t>::max(),
           "Slab bytes beyond which nodes go to the cold tier [no limit]");
  set.size("ram", o.ram_bytes, 0,
           "All the RAM for state, tables, data and buffers; LibTorch's own comes on top [half of what is free]");
  set.whole("threads", o.threads, "Nodes trained at the same time, per rank [cores / intra-op / ranks on them]", 1,
            256);
  set.add(
      text_option(
          "slow-rank", "", "RANK:FACTORx",
          [](const std::string& text) { return slow_rank_text(parse_slow_rank(text)); },
          "For experiments: this rank's steps take that many times as long"),
      [&o](const std::string& text) { o.slow_rank = text.empty() ? SlowRank() : parse_slow_rank(text); },
      [&o] { return slow_rank_text(o.slow_rank); });
  set.path("log-dir", o.log_dir, "Folder for a log of every rank; only rank 0 prints");
}

void declare_watching(OptionSet& set, TrainOptions& o) {
  set.section("How it is watched and kept", false);
  set.whole("checkpoint-every", o.checkpoint_every,
            "Rounds between checkpoints; 0: none, and the store is removed at the end");
  set.flag("resume", o.resume, "Go on from the last checkpoint").command_line_only();
  set.flag("overwrite", o.overwrite, "Delete the run that is in --out and --store first").command_line_only();
  set.whole("eval-every", o.eval_every,
            "Rounds between evaluations [rounds / 10; ranks at their own pace: only at the end]", 1);
  set.whole("eval-nodes", o.eval_nodes, "Nodes whose model is evaluated");
  set.whole("eval-samples", o.eval_samples, "Test images they are evaluated on", 1);
  set.flag("trace", o.trace, "Write OUT/trace.json: what each worker did when, and what was waited for");
  set.flag("strict", o.strict, "A mode that is not what was asked for (io_uring, O_DIRECT...) is an error");
  set.flag("quiet", o.quiet, "No progress");
  set.flag("json", o.json, "The summary, or with --dry-run the plan, as JSON alone on stdout");
  set.flag("dry-run", o.dry_run, "Say what it would take and stop").command_line_only();
}

void declare(OptionSet& set, TrainOptions& options) {
  declare_computation(set, options);
  declare_algorithm_options(set, options);
  declare_place(set, options);
  declare_watching(set, options);
}

// That this process may use: std::thread::hardware_concurrency() counts all of the machine's.
unsigned cores() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return std::thread::hardware_concurrency();
  return static_cast<unsigned>(CPU_COUNT(&allowed));
}

// What can't be known before all options are read.
void complete(TrainOptions& options, const OptionSet& set, RanksHere ranks_here) {
  // An edge list brings its own number of nodes; one that is given must agree with it.
  if (options.graph.starts_with("file:") && !set.given("nodes")) options.nodes = 0;
  require(!options.optimizer.nesterov || options.optimizer.momentum > 0, "--nesterov needs --momentum above 0");
  require(!(options.resume && options.overwrite), "--resume and --overwrite contradict each other");
  require(!options.out.empty(), "--out: give a folder");
  if (options.threads == 0) {
    options.threads = std::max(1U, std::clamp(cores(), 1U, 256U) / options.intra_op / ranks_here.on_cores);
    // While one computes there, another's copies can be under way.
    if (options.device.starts_with("cuda")) options.threads = std::max(2U, options.threads);
  }
  if (options.store.empty()) options.store = options.out / "store";
  if (!set.given("ram")) options.ram_bytes = free_ram() / 2 / ranks_here.in_ram;
  const bool free = options.pace == Pace::kFree && ranks_here.in_all > 1;
  if (options.eval_every == 0) options.eval_every = std::max<std::uint64_t>(1, options.rounds / (free ? 1 : 10));
  require(!free || options.eval_every >= options.rounds,
          fmt::format("--eval-every {}: with --async free on several ranks the models are evaluated once, when all "
                      "ranks have made their last round; leave it out or, where a file has it, give --eval-every {}",
                      options.eval_every, options.rounds));
}

}  // namespace

std::vector<Setting> settings(const TrainOptions& options) {
  TrainOptions copy = options;
  OptionSet set;
  declare(set, copy);
  return set.settings();
}

TrainCommand parse_train_command(int argc, const char* const* argv, RanksHere ranks_here) {
  TrainCommand result;
  OptionSet set;
  declare(set, result.options);
  result.print = set.parse({"shoal-train", SHOAL_VERSION, kDescription, footer()}, argc, argv);
  if (result.print) return result;
  complete(result.options, set, ranks_here);
  if (set.print_config()) result.print = to_toml(settings(result.options));
  return result;
}

}  // namespace shoal
