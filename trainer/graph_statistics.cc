#include <fmt/format.h>

#include <algorithm>

#include "trainer/graph.h"
#include "trainer/random.h"
#include "trainer/spectral_gap.h"

namespace shoal {
namespace {

constexpr std::uint32_t kUnreached = ~std::uint32_t{0};

// Distances from `start`; returns the node reached last, and how many were.
struct Sweep {
  NodeId last;
  NodeId reached;
};

Sweep sweep(const Graph& graph, NodeId start, std::vector<std::uint32_t>& levels) {
  levels.assign(graph.nodes(), kUnreached);
  std::vector<NodeId> queue = {start};
  queue.reserve(graph.nodes());
  levels[start] = 0;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const NodeId next : graph.neighbours(queue[i])) {
      if (levels[next] != kUnreached) continue;
      levels[next] = levels[queue[i]] + 1;
      queue.push_back(next);
    }
  }
  return {queue.back(), static_cast<NodeId>(queue.size())};
}

}  // namespace

GraphStatistics statistics(const Graph& graph, Mixing mixing, std::uint64_t seed) {
  GraphStatistics result;
  const NodeId nodes = graph.nodes();
  if (nodes == 0) return result;
  result.edges = graph.edges();
  result.largest_degree = graph.max_degree();
  result.least_degree = graph.degree(0);
  for (NodeId i = 0; i < nodes; ++i) result.least_degree = std::min(result.least_degree, graph.degree(i));
  result.mean_degree = 2.0 * static_cast<double>(graph.edges()) / nodes;

  // From a random node to the farthest, from there to the farthest: on a tree that is the diameter.
  constexpr int kDoubleSweeps = 2;
  RandomStream random(seed, Purpose::kGraph, 0, std::uint64_t{1} << 41);
  std::vector<std::uint32_t> levels;
  std::vector<std::uint32_t> longest;
  for (int i = 0; i < kDoubleSweeps; ++i) {
    const Sweep first = sweep(graph, random.below(nodes), levels);
    result.connected = first.reached == nodes;
    const Sweep second = sweep(graph, first.last, levels);
    if (longest.empty() || levels[second.last] > result.diameter_estimate) {
      result.diameter_estimate = levels[second.last];
      longest = levels;
    }
  }
  if (result.connected) {
    const SpectralGap gap = spectral_gap(graph, mixing, seed, longest);
    result.spectral_gap = gap.gap;
    result.spectral_gap_is_bound = gap.is_bound;
  }
  return result;
}

std::string GraphStatistics::text() const {
  return fmt::format("{} edges, degree {} to {}, {:.4g} in the mean, diameter about {}, spectral gap {}{:.3g}{}", edges,
                     least_degree, largest_degree, mean_degree, diameter_estimate,
                     spectral_gap_is_bound ? "at most " : "", spectral_gap, connected ? "" : " (not connected)");
}

}  // namespace shoal
