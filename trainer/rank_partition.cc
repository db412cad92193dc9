// Cuts orders of the nodes into pieces of equal work, moves nodes between the pieces, keeps the best. docs/results.md
// has what that is worth, and how it compares with merging nodes first (multilevel).

#include "trainer/rank_partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "store/error.h"
#include "trainer/keyed_permutation.h"
#include "trainer/node_queues.h"
#include "trainer/random.h"
#include "trainer/rank_refinement.h"

namespace shoal {
namespace {

using Owners = std::vector<std::uint16_t>;

// Streams of Purpose::kGraph that nothing else uses.
constexpr std::uint64_t kSplitStep = std::uint64_t{1} << 42;
constexpr std::uint64_t kRandomSplitStep = std::uint64_t{1} << 43;

// Whole numbers, so that sums do not depend on their order: 1 if all are alike, up to 2^31 otherwise.
std::vector<std::uint32_t> whole_weights(NodeId nodes, std::span<const float> work) {
  std::vector<std::uint32_t> weights(nodes, 1);
  if (work.empty()) return weights;
  SHOAL_CHECK(std::ranges::all_of(work, [](float each) { return each >= 0 && std::isfinite(each); }));
  const auto [least, most] = std::ranges::minmax(work);
  if (least == most) return weights;
  for (NodeId i = 0; i < nodes; ++i) {
    weights[i] = std::max(std::uint32_t{1}, static_cast<std::uint32_t>(double{work[i]} / most * 0x1p31));
  }
  return weights;
}

struct Traffic {
  std::uint64_t cut_edges = 0;
  std::uint64_t remote_reads = 0;
};

Traffic traffic(const Graph& graph, unsigned ranks, const Owners& owner) {
  Traffic result;
  std::vector<NodeId> last_read(ranks, kNoNode);  // by rank
  for (NodeId i = 0; i < graph.nodes(); ++i) {
    for (const NodeId j : graph.neighbours(i)) {
      if (owner[i] == owner[j]) continue;
      result.cut_edges += i < j ? 1 : 0;
      result.remote_reads += last_read[owner[j]] != i ? 1 : 0;
      last_read[owner[j]] = i;
    }
  }
  return result;
}

class Splitter {
 public:
  Splitter(const Graph& graph, std::vector<std::uint32_t> weights, unsigned ranks)
      : graph_(graph),
        weights_(std::move(weights)),
        ranks_(ranks),
        total_(std::accumulate(weights_.begin(), weights_.end(), std::uint64_t{0})) {
    even_load_ = (total_ + ranks - 1) / ranks + std::ranges::max(weights_) - 1;  // see cut()
    most_load_ = std::max((total_ + total_ / 100 * 3) / ranks, even_load_);
  }

  Owners fewest_cut(std::span<const NodeId> order, RandomStream random) const {
    // 0.1 s for 10,000 nodes of degree 8; 1,000,000 took 7 to 12 s while the machine was busy with other work.
    constexpr std::uint64_t kMostWork = 8'000'000;
    const std::uint64_t affordable = kMostWork / std::max<std::uint64_t>(1, 2 * graph_.edges());
    const std::uint64_t starts = std::clamp<std::uint64_t>(affordable, 1, 8);
    const int passes = static_cast<int>(std::clamp<std::uint64_t>(affordable, 1, 10));

    Owners best = swept(cut(order));
    std::uint64_t fewest = traffic(graph_, ranks_, best).cut_edges;
    for (std::uint64_t i = 0; i < starts; ++i) {
      Owners owner = swept(cut(grown_order(random.below(graph_.nodes()))));
      const std::uint64_t edges = traffic(graph_, ranks_, owner).cut_edges;
      if (edges >= fewest) continue;
      best = std::move(owner);
      fewest = edges;
    }
    RankRefinement(graph_, weights_, ranks_, most_load_, best).refine(passes);
    return best;
  }

  // From the fewest cut edges, or from the pieces of `order`, which was made for few reads too: better on hypercubes
  // and where there are hubs.
  Owners fewest_reads(std::span<const NodeId> order, const Owners& fewest_cut) const {
    Owners best = balanced(fewest_cut);
    for (Owners owner : {fewest_cut, cut(order)}) {
      owner = balanced(swept_for_reads(std::move(owner)));
      if (traffic(graph_, ranks_, owner).remote_reads < traffic(graph_, ranks_, best).remote_reads) best = owner;
    }
    return best;
  }

  // The slack that the other methods work with is given up: everybody waits for the rank that has most to do.
  Owners balanced(Owners owner) const {
    RankRefinement(graph_, weights_, ranks_, most_load_, owner).balance(even_load_);
    return owner;
  }

 private:
  // Of the total weight, what the first `ranks` ranks should have.
  std::uint64_t share(unsigned ranks) const { return total_ / ranks_ * ranks + total_ % ranks_ * ranks / ranks_; }

  // Pieces of `order`, each ending with the node that fills its share: it is less than a node above the mean.
  Owners cut(std::span<const NodeId> order) const {
    Owners owner(order.size());
    std::uint64_t sum = 0;
    unsigned rank = 0;
    std::size_t first = 0;  // of the rank
    for (std::size_t i = 0; i < order.size(); ++i) {
      const unsigned ranks_left = ranks_ - rank - 1;
      const bool full = i > first && sum >= share(rank + 1);
      if (ranks_left > 0 && (full || order.size() - i == ranks_left)) {
        ++rank;
        first = i;
      }
      owner[order[i]] = static_cast<std::uint16_t>(rank);
      sum += weights_[order[i]];
    }
    return owner;
  }

  // Next is the node with the most neighbours in the piece that is being filled, so that a piece grows round. The next
  // piece begins at its edge.
  std::vector<NodeId> grown_order(NodeId start) const {
    std::vector<NodeId> order;
    order.reserve(graph_.nodes());
    std::vector<bool> taken(graph_.nodes());
    NodeQueues queue(graph_.nodes(), 1);
    std::uint64_t sum = 0;
    unsigned pieces = 0;
    NodeId first_left = 0;
    for (NodeId node = start;;) {
      order.push_back(node);
      taken[node] = true;
      queue.remove(node);
      if (order.size() == graph_.nodes()) return order;
      sum += weights_[node];
      for (const NodeId next : graph_.neighbours(node)) {
        if (!taken[next]) queue.put(0, next, queue.holds(next) ? queue.priority(next) + 1 : 1);
      }
      while (taken[first_left]) ++first_left;
      const NodeQueues::Entry* top = queue.top(0);
      node = top != nullptr ? top->node : first_left;
      if (sum < share(pieces + 1)) continue;
      ++pieces;
      queue.clear();
    }
  }

  Owners swept_for_reads(Owners owner) const {
    RankRefinement(graph_, weights_, ranks_, most_load_, owner).sweep_reads();
    return owner;
  }

  Owners swept(Owners owner) const {
    RankRefinement(graph_, weights_, ranks_, most_load_, owner).sweep();
    return owner;
  }

  const Graph& graph_;
  std::vector<std::uint32_t> weights_;
  unsigned ranks_;
  std::uint64_t total_;
  std::uint64_t even_load_;  // less than a node above the mean
  std::uint64_t most_load_;  // on the way there
};

}  // namespace

RankPartition split_over_ranks(const Graph& graph, std::span<const float> work, unsigned ranks, std::uint64_t seed,
                               std::span<const NodeId> order, Fewest fewest) {
  constexpr unsigned kMostRanks = std::numeric_limits<std::uint16_t>::max();
  SHOAL_CHECK(ranks > 0 && order.size() == graph.nodes() && (work.empty() || work.size() == graph.nodes()));
  if (ranks > graph.nodes()) {
    throw Error(fmt::format("{} ranks for {} nodes: every rank needs a node of its own; start {} ranks or fewer, or "
                            "take a graph of more nodes",
                            ranks, graph.nodes(), graph.nodes()),
                ExitCode::kUsage);
  }
  if (ranks > kMostRanks) {
    throw Error(
        fmt::format("{} ranks are more than the {} that nodes can be split over: start fewer", ranks, kMostRanks),
        ExitCode::kUsage);
  }
  RankPartition result;
  result.ranks = ranks;
  result.work.resize(ranks);
  if (ranks == 1) {
    result.owner.resize(graph.nodes());
  } else {
    const Splitter splitter(graph, whole_weights(graph.nodes(), work), ranks);
    const Owners owner = splitter.fewest_cut(order, RandomStream(seed, Purpose::kGraph, 0, kSplitStep));
    result.owner = fewest == Fewest::kRemoteReads ? splitter.fewest_reads(order, owner) : splitter.balanced(owner);
  }
  for (NodeId i = 0; i < graph.nodes(); ++i) result.work[result.owner[i]] += work.empty() ? 1 : double{work[i]};
  return result;
}

std::uint64_t bytes_to_split(NodeId nodes, unsigned ranks) {
  // The weights, and a split with what it is made from; growing an order takes less than refining.
  constexpr std::uint64_t kByNode = sizeof(std::uint32_t) + 5 * sizeof(std::uint16_t);
  return nodes * kByNode + ranks * sizeof(double) + RankRefinement::bytes_for(nodes, ranks);
}

PartitionFigures figures(const RankPartition& partition, const Graph& graph, std::uint64_t seed) {
  const NodeId nodes = graph.nodes();
  const unsigned ranks = partition.ranks;
  PartitionFigures result;
  result.nodes.resize(ranks);
  for (const std::uint16_t rank : partition.owner) ++result.nodes[rank];
  const Traffic own = traffic(graph, ranks, partition.owner);
  result.cut_edges = own.cut_edges;
  result.remote_reads = own.remote_reads;

  const KeyedPermutation shuffled(nodes, RandomStream(seed, Purpose::kGraph, 0, kRandomSplitStep));
  Owners at_random(nodes);
  for (NodeId i = 0; i < nodes; ++i) at_random[i] = static_cast<std::uint16_t>(shuffled(i) * ranks / nodes);
  const Traffic random = traffic(graph, ranks, at_random);
  result.random_cut_edges = random.cut_edges;
  result.random_remote_reads = random.remote_reads;

  const double mean = std::accumulate(partition.work.begin(), partition.work.end(), 0.0) / ranks;
  if (mean > 0) result.imbalance = std::max(0.0, std::ranges::max(partition.work) / mean - 1);  // rounding may be below
  return result;
}

}  // namespace shoal
