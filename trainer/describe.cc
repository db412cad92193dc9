#include "trainer/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "pipeline/trace_file.h"
#include "store/error.h"
#include "store/memory_plan.h"
#include "store/size_text.h"
#include "trainer/evaluation_sample.h"
#include "trainer/graph_sizes.h"
#include "trainer/learner_memory.h"
#include "trainer/planned_rounds.h"
#include "trainer/requirements.h"
#include "trainer/share.h"
#include "trainer/split.h"

namespace shoal {
namespace {

// How Requirements comes by its figures.
std::string formula_of(std::string_view what, const Experiment& experiment, const ShareSize& share,
                       const Requirements& requirements) {
  const TrainOptions& options = experiment.options;
  const std::size_t flat = experiment.layout->flat_size();
  if (what == "network") {
    return fmt::format("{} nodes and {} edges, each from both ends", options.nodes, experiment.graph().edges());
  }
  if (what == "schedule") return "the round's plan for all nodes, 16 B a record";
  if (what == "ranks" && share.whole) return fmt::format("sums of {} gradients in 8 B, in the MPI library", flat);
  if (what == "ranks") {
    return fmt::format(
        "who owns which of {} nodes, {} guests, all ranks' sums and twice what is sent of them: {} x 28 B",
        options.nodes, share.guests, flat);
  }
  if (what == "mapped ranks") {
    return fmt::format("other ranks' memory that is mapped here, --ram / 16 at most: {} B with what is in 'ranks'",
                       requirements.mapped_bytes);
  }
  if (what == "data") return "images, labels and their partition";
  if (what == "workers") {
    return fmt::format("{} threads x (2 vectors x {} floats, a batch of {}, buffers)", options.threads, flat,
                       options.batch);
  }
  if (what == "algorithm") return fmt::format("sums of {} gradients and of the float buffers in 16 B", flat);
  if (what == "device") return "pinned copies of gradient and batch";
  if (what == "metrics") {
    return fmt::format("sums over the population {} x 12 B, two models, 24 B a record, buffers of {} evaluated nodes",
                       flat, options.eval_nodes);
  }
  return fmt::format("{} events and {} of trace.json", Trace::node_events(experiment.team.size) + Trace::kRoundEvents,
                     size_text(TraceFile::kBytes));
}

std::uint64_t edges_between_ranks(const Graph& graph, const RankPartition& partition) {
  std::uint64_t edges = 0;
  for (NodeId node = 0; node < graph.nodes(); ++node) {
    for (const NodeId neighbour : graph.neighbours(node)) {
      edges += node < neighbour && partition.owner[node] != partition.owner[neighbour] ? 1 : 0;
    }
  }
  return edges;
}

// Ranks fill one host after the other, as mpirun does it.
std::vector<bool> far_guests(const Share& share, unsigned rank, unsigned ranks_per_host) {
  std::vector<bool> far;
  for (const NeighbourReads::Guest& guest : share.guest_places()) {
    far.push_back(guest.owner / ranks_per_host != rank / ranks_per_host);
  }
  return far;
}

// Who acts when, in which order, and who is watched.
void add_rounds(RunDescription& run, const std::shared_ptr<const Experiment>& experiment, const RankOfRun& rank,
                unsigned ranks_per_host) {
  const Share& share = *rank.share;
  if (experiment->sampler) {
    run.eval_every = experiment->options.eval_every;
    for (const NodeId node : sample_of_nodes(experiment->options, experiment->algorithm->records())) {
      const bool here = share.whole() ? rank.rank == 0 : share.owns(node);
      if (here) run.evaluated.push_back(share.local(node));
    }
  }
  if (experiment->algorithm->records() == experiment->order.size()) {
    for (const NodeId node : experiment->order) {
      if (share.owns(node)) run.order.push_back(share.local(node));
    }
  } else {
    run.order.resize(run.records());
    std::iota(run.order.begin(), run.order.end(), NodeId{0});
  }
  run.far_guests = far_guests(share, rank.rank, ranks_per_host);
  run.start = [experiment, rank] { return planned_rounds(experiment, rank); };
}

// To divide more nodes among ranks takes the run half a minute and more; a plan asks a sample.
constexpr NodeId kMostSplit = 131'072;
constexpr NodeId kSplitSample = 32'768;

TrainOptions changed(TrainOptions options, const RunChange& change) {
  if (change.graph) options.graph = *change.graph;
  if (change.sample_of) options.graph = resized_graph(options.graph, *change.sample_of, *change.nodes);
  options.nodes = change.nodes.value_or(options.nodes);
  options.threads = change.threads.value_or(options.threads);
  options.batch = change.batch.value_or(options.batch);
  options.algorithm = change.algorithm.value_or(options.algorithm);
  options.checkpoint_every = change.checkpoint_every.value_or(options.checkpoint_every);
  if (change.warm_bytes) {
    options.warm_bytes = *change.warm_bytes;
    options.cold = options.store.string() + "-elsewhere";
  }
  if (change.plain_sgd) {
    options.optimizer.name = "sgd";
    options.optimizer.momentum = 0;
    options.optimizer.nesterov = false;
  }
  return options;
}

NodeId scaled(NodeId count, double factor) { return static_cast<NodeId>(std::llround(count * factor)); }
std::uint64_t scaled(std::uint64_t count, double factor) {
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(count) * factor));
}

ShareSize scaled(const ShareSize& size, double factor) {
  ShareSize result = size;
  result.nodes = scaled(size.nodes, factor);
  result.guests = scaled(size.guests, factor);
  result.reads = scaled(size.reads, factor);
  result.bytes = scaled(size.bytes, factor);
  if (size.old_versions) result.old_versions = scaled(*size.old_versions, factor);
  return result;
}

}  // namespace

std::vector<StateItem> state_items(const Experiment& experiment) {
  const NodeLayout& layout = *experiment.layout;
  const std::uint64_t parameters = experiment.model->parameter_count();
  std::vector<StateItem> items;
  items.push_back(
      {"weights", Part::kPublic, parameters * sizeof(float), fmt::format("{} parameters x 4 B", parameters)});
  std::uint64_t buffers = 0;
  for (const TensorPlace& place : layout.buffers()) buffers += place.bytes;
  if (buffers > 0) {
    items.push_back({"buffers", Part::kPublic, buffers,
                     fmt::format("{} tensors beside the parameters (BatchNorm's)", layout.buffers().size())});
  }
  std::vector<std::string> counters = {"steps", "last loss"};
  for (const std::string& name : experiment.algorithm->scalars()) counters.push_back(name);
  for (const TensorPlace& place : layout.state().tensors()) {
    if (place.spec.part != Part::kPrivate) continue;
    const bool scalars = place.spec.name == "scalars";
    items.push_back({place.spec.name, Part::kPrivate, place.bytes,
                     scalars ? fmt::format("{}", fmt::join(counters, ", "))
                             : fmt::format("{} floats, like the weights with their gaps, x 4 B", layout.flat_size())});
  }
  return items;
}

// The experiment of one choice of options, and what of it is whose.
struct DescribedRun::Made {
  struct Rank {
    std::shared_ptr<const Share> share;  // null: only its size is known
    ShareSize size;
    Requirements requirements;
  };

  Made(const TrainOptions& options, unsigned ranks_in_all, unsigned hosts, const Experiment* like)
      : experiment(std::make_shared<Experiment>(options, Team{0, ranks_in_all, {}}, like)),
        ranks(ranks_in_all),
        ranks_per_host((ranks + hosts - 1) / hosts),
        split(is_split(*experiment, ranks)) {
    if (!split) return;
    const TrainOptions& made_with = experiment->options;
    const NodeId least = least_alike(made_with.graph, experiment->graph().max_degree());
    if (made_with.nodes > kMostSplit && least != 0 && least <= kSplitSample) {
      TrainOptions few = options;
      few.nodes = kSplitSample;
      few.graph = resized_graph(options.graph, made_with.nodes, few.nodes);
      sample = std::make_unique<Made>(few, ranks, hosts, experiment.get());
      cut_edges = scaled(sample->cut_edges, static_cast<double>(experiment->graph().edges()) /
                                                static_cast<double>(sample->experiment->graph().edges()));
      return;
    }
    partition = partition_for(*experiment, ranks);
    cut_edges = edges_between_ranks(experiment->graph(), partition);
  }

  Rank& rank(unsigned rank) {
    const auto found = made.find(rank);
    if (found != made.end()) return found->second;
    std::shared_ptr<const Share> share;
    ShareSize size;
    if (sample) {
      size = scaled(sample->rank(rank).size, static_cast<double>(experiment->options.nodes) / kSplitSample);
    } else {
      share = split ? std::make_shared<const Share>(experiment->graph(), partition, rank)
                    : std::make_shared<const Share>(experiment->algorithm->records());
      size = ShareSize(*experiment, *share);
    }
    const StorePlace place = store_place(experiment->options, {rank, ranks, rank % ranks_per_host, ""});
    return made.emplace(rank, Rank{share, size, Requirements(*experiment, size, place)}).first->second;
  }

  std::shared_ptr<const Experiment> experiment;
  unsigned ranks;
  unsigned ranks_per_host;
  bool split;
  RankPartition partition;
  std::unique_ptr<Made> sample;  // of a population that is too large to be split just for a plan
  std::uint64_t cut_edges = 0;
  std::map<unsigned, Rank> made;
};

DescribedRun::DescribedRun(const TrainOptions& options, unsigned ranks, unsigned hosts)
    : options_(options), ranks_(ranks), hosts_(hosts) {}

DescribedRun::Made& DescribedRun::made_for(const RunChange& change) {
  const auto make = [&](const Experiment* like) {
    return std::make_shared<Made>(changed(options_, change), change.ranks.value_or(ranks_),
                                  change.hosts.value_or(hosts_), like);
  };
  if (change.same_run({})) {
    if (!whole_) whole_ = make(nullptr);
    return *whole_;
  }
  if (!other_ || !other_change_.same_run(change)) {
    other_ = make(whole_ ? whole_->experiment.get() : nullptr);
    other_change_ = change;
  }
  return *other_;
}

RunDescription DescribedRun::operator()(const RunChange& change) {
  Made& made = made_for(change);
  const std::shared_ptr<const Experiment> experiment = made.experiment;
  const TrainOptions& options = experiment->options;
  Made::Rank& rank = made.rank(change.rank);
  Requirements& requirements = rank.requirements;
  requirements.give_ram(change.ram_bytes.value_or(options_.ram_bytes));

  RunDescription run;
  run.ranks = made.ranks;
  run.model = options.model;
  run.graph = options.graph;
  run.algorithm = options.algorithm;
  run.optimizer = options.optimizer.name;
  run.device = options.device;
  run.nodes = options.nodes;
  run.parameters = experiment->model->parameter_count();
  run.rounds = options.rounds;
  run.batch = options.batch;
  run.threads = options.threads;
  run.intra_op = options.intra_op;
  run.items = state_items(*experiment);
  run.flat_bytes = experiment->layout->flat_size() * sizeof(float);

  run.store = requirements.store;
  run.ram_bytes = requirements.ram_bytes;
  run.least_ram_bytes = requirements.least_ram_bytes;
  run.resident_ram_bytes = requirements.resident_ram_bytes;
  run.store.io = requirements.slot_use.in_place ? IoEngine::kMapped : IoEngine::kDirect;
  run.slot_use = requirements.slot_use;
  run.most_disk = requirements.disk;
  run.stop_disk = requirements.stop_disk;
  for (const auto& [what, bytes] : requirements.trainer) {
    run.program.push_back({what, bytes, formula_of(what, *experiment, rank.size, requirements)});
  }
  run.program_bytes = requirements.trainer_bytes;
  const LearnerMemory memory = learner_memory(*experiment);
  run.untouched_bytes = memory.untouched_bytes;
  run.untouched_formula = memory.untouched_formula;
  run.library_bytes = kLibraryBytes + (run.ranks > 1 ? kMpiBytes : 0);
  run.activation_bytes = memory.host_bytes;
  run.activation_formula = memory.formula;
  run.device_memory_bytes = memory.device_bytes;
  run.device_memory_formula = memory.device_formula;

  run.all_act = experiment->algorithm->all_act();
  run.checkpoint_every = options.checkpoint_every;
  run.split = made.split;
  run.edges = experiment->graph().edges();
  run.cut_edges = made.cut_edges;
  run.split_sample = made.sample ? kSplitSample : 0;
  const bool one_each = experiment->algorithm->records() == options.nodes;
  run.least_sample = one_each ? least_alike(options.graph, experiment->graph().max_degree()) : 0;
  run.nodes_at_most = [graph = options.graph](NodeId nodes) { return shoal::nodes_at_most(graph, nodes); };
  run.sparser_graphs = shoal::sparser_graphs(options.graph);
  if (rank.share) add_rounds(run, experiment, {change.rank, made.ranks, rank.share}, made.ranks_per_host);
  return run;
}

}  // namespace shoal
