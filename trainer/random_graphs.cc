#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>
#include <vector>

#include "trainer/disjoint_sets.h"
#include "trainer/graph_generators.h"
#include "trainer/random.h"

namespace shoal {
namespace {

using Edges = std::vector<std::pair<NodeId, NodeId>>;

// Joins the parts: each, by one edge, to a random node of those joined so far, beginning with the largest. Redrawing
// instead would hardly ever end below the threshold of connectivity (p < ln n / n), and would bias the rest.
NodeId join_parts(NodeId nodes, Edges& edges, RandomStream& random) {
  DisjointSets parts(nodes);
  for (const auto& [a, b] : edges) parts.join(a, b);
  const NodeId added = parts.count() - 1;
  if (added == 0) return 0;
  std::vector<NodeId> joined;
  std::vector<std::pair<NodeId, NodeId>> rest;  // (part, node)
  const NodeId largest = parts.largest();
  for (NodeId node = 0; node < nodes; ++node) {
    const NodeId part = parts.find(node);
    if (part == largest) {
      joined.push_back(node);
    } else {
      rest.emplace_back(part, node);
    }
  }
  std::sort(rest.begin(), rest.end());
  for (std::size_t begin = 0; begin < rest.size();) {
    const std::size_t end = begin + parts.size(rest[begin].second);
    const std::size_t member = begin + random.below(static_cast<std::uint32_t>(end - begin));
    edges.emplace_back(rest[member].second, joined[random.below(static_cast<std::uint32_t>(joined.size()))]);
    for (; begin < end; ++begin) joined.push_back(rest[begin].second);
  }
  return added;
}

JoinedGraph joined_graph(NodeId nodes, Edges edges, RandomStream& random) {
  const NodeId joined = join_parts(nodes, edges, random);
  return {Graph(nodes, edges), joined};
}

}  // namespace

// The pairs (i, j < i) stand in a row; the distance from one edge to the next is geometric (Batagelj and Brandes
// 2005), so the time goes with the edges, not with the pairs.
JoinedGraph erdos_renyi_graph(NodeId nodes, double probability, std::uint64_t seed) {
  RandomStream random(seed, Purpose::kGraph);
  const double pairs = 0.5 * nodes * (nodes - 1.0);
  const double log_miss = std::log1p(-probability);
  Edges edges;
  edges.reserve(static_cast<std::size_t>(pairs * probability + 4 * std::sqrt(pairs * probability)) + 1);
  std::uint64_t i = 1;
  std::uint64_t j = 0;
  while (true) {
    const double skipped = std::floor(std::log1p(-random.uniform()) / log_miss);
    if (!(skipped < pairs)) break;
    j += static_cast<std::uint64_t>(skipped);
    while (j >= i && i < nodes) {
      j -= i;
      ++i;
    }
    if (i >= nodes) break;
    edges.emplace_back(static_cast<NodeId>(i), static_cast<NodeId>(j));
    ++j;
  }
  return joined_graph(nodes, std::move(edges), random);
}

// As Watts and Strogatz 1998: lap by lap around the ring, each lattice edge keeps its first end and, with probability
// `rewired`, gets a new second end among all nodes it is not an edge to yet. A lattice edge is known by arithmetic, so
// only new edges need a set to look them up in.
JoinedGraph watts_strogatz_graph(NodeId nodes, std::uint32_t degree, double rewired, std::uint64_t seed) {
  RandomStream random(seed, Purpose::kGraph);
  const std::uint32_t half = degree / 2;
  const auto ahead = [nodes](NodeId a, NodeId b) { return b >= a ? b - a : nodes - (a - b); };
  const auto place = [nodes](NodeId first, std::uint32_t distance) {
    return std::size_t{distance - 1} * nodes + first;
  };
  const auto key = [](NodeId a, NodeId b) { return std::uint64_t{std::min(a, b)} << 32 | std::max(a, b); };
  std::vector<bool> moved(std::size_t{nodes} * half);
  std::vector<std::uint32_t> degrees(nodes, degree);
  std::unordered_set<std::uint64_t> added;
  const auto linked = [&](NodeId a, NodeId b) {
    if (ahead(a, b) <= half && !moved[place(a, ahead(a, b))]) return true;
    if (ahead(b, a) <= half && !moved[place(b, ahead(b, a))]) return true;
    return added.contains(key(a, b));
  };
  Edges edges;
  edges.reserve(moved.size());
  for (std::uint32_t distance = 1; distance <= half; ++distance) {
    for (NodeId i = 0; i < nodes; ++i) {
      NodeId end = static_cast<NodeId>((std::uint64_t{i} + distance) % nodes);
      if (rewired > 0 && random.uniform() < rewired && degrees[i] < nodes - 1) {
        --degrees[end];
        do {
          end = random.below(nodes);
        } while (end == i || linked(i, end));
        ++degrees[end];
        moved[place(i, distance)] = true;
        added.insert(key(i, end));
      }
      edges.emplace_back(i, end);
    }
  }
  moved = {};
  added = {};
  return joined_graph(nodes, std::move(edges), random);
}

// A random end of a random edge is a node drawn in proportion to its degree (Barabasi and Albert 1999).
Graph barabasi_albert_graph(NodeId nodes, std::uint32_t links, std::uint64_t seed) {
  RandomStream random(seed, Purpose::kGraph);
  Edges edges;
  edges.reserve(std::size_t{links} * (nodes - links));
  for (NodeId i = 1; i <= links; ++i) edges.emplace_back(0, i);
  std::vector<NodeId> chosen_by(nodes, kNoNode);
  for (NodeId i = links + 1; i < nodes; ++i) {
    const auto earlier = static_cast<std::uint32_t>(edges.size());
    for (std::uint32_t k = 0; k < links;) {
      const auto& edge = edges[random.below(earlier)];
      const NodeId end = (random() & 1) != 0 ? edge.first : edge.second;
      if (chosen_by[end] == i) continue;
      chosen_by[end] = i;
      edges.emplace_back(i, end);
      ++k;
    }
  }
  return Graph(nodes, edges);
}

}  // namespace shoal
