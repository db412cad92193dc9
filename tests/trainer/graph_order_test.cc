#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/trainer/belady_reads.h"
#include "trainer/graph.h"
#include "trainer/random.h"

namespace shoal {
namespace {

std::vector<NodeId> random_order(NodeId nodes, std::uint64_t seed = 1) {
  std::vector<NodeId> order(nodes);
  std::iota(order.begin(), order.end(), NodeId{0});
  RandomStream random(seed, Purpose::kTest);
  for (NodeId i = nodes; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

// The same graph with its nodes numbered at random, so that no order can live on the numbers.
Graph renumbered(const Graph& graph) {
  const std::vector<NodeId> numbers = random_order(graph.nodes(), 2);
  std::vector<std::pair<NodeId, NodeId>> edges;
  for (NodeId i = 0; i < graph.nodes(); ++i) {
    for (const NodeId j : graph.neighbours(i)) edges.emplace_back(numbers[i], numbers[j]);
  }
  return Graph(graph.nodes(), edges);
}

const std::vector<std::pair<std::string, NodeId>> kStructured = {
    {"ring", 1000},
    {"torus", 1024},
    {"ring-lattice:8", 1000},
    {"watts-strogatz:8:0.05", 1000},
    {"hypercube", 1024},
    {"barabasi-albert:4", 1000},
    {"star", 500},
    {"random-regular:8", 1000},
    {"erdos-renyi:0.01", 800},
    {"exponential", 500},
};

TEST(BeladyReads, ReadsEachRecordOnceIfAllFit) {
  const Graph graph = make_graph("random-regular:4", 50, 1).graph;
  EXPECT_EQ(belady_reads(graph, random_order(50), 50), 50u);
}

TEST(BeladyReads, KeepsWhatIsUsedSoonest) {
  // A path 0-1-2 in the order 0, 2, 1 uses 0 1, 2 1, 1 0 2. With two places: 0, 1, then 2 in place of 0, then 0 again.
  const Graph path(3, {{0, 1}, {1, 2}});
  EXPECT_EQ(belady_reads(path, {0, 2, 1}, 2), 4u);
  EXPECT_EQ(belady_reads(path, {0, 2, 1}, 1), 6u);
}

TEST(LocalityOrder, HoldsEveryNodeOnce) {
  for (const auto& [spec, nodes] : kStructured) {
    std::vector<NodeId> order = locality_order(make_graph(spec, nodes, 1).graph);
    std::ranges::sort(order);
    std::vector<NodeId> all(nodes);
    std::iota(all.begin(), all.end(), NodeId{0});
    EXPECT_EQ(order, all) << spec;
  }
  EXPECT_EQ(locality_order(Graph(1, {})), (std::vector<NodeId>{0}));
  EXPECT_TRUE(locality_order(Graph()).empty());
  EXPECT_EQ(locality_order(Graph(5, {{0, 4}, {1, 3}})).size(), 5u) << "in pieces";
}

TEST(LocalityOrder, ReadsNoMoreThanARandomOrderOnAnyGraph) {
  for (const auto& [spec, nodes] : kStructured) {
    if (spec == "star") continue;  // has nothing to gain but by the place of one node
    const Graph graph = renumbered(make_graph(spec, nodes, 1).graph);
    for (const NodeId share : {NodeId{4}, NodeId{16}, NodeId{64}}) {
      EXPECT_LE(belady_reads(graph, locality_order(graph), nodes / share),
                belady_reads(graph, random_order(nodes), nodes / share))
          << spec << ", cache 1/" << share;
    }
  }
}

TEST(LocalityOrder, ReadsARingOrALatticeHardlyMoreThanOnce) {
  for (const auto& [spec, nodes] :
       std::vector<std::pair<std::string, NodeId>>{{"ring", 4000}, {"ring-lattice:8", 4000}}) {
    const Graph graph = renumbered(make_graph(spec, nodes, 1).graph);
    EXPECT_LE(belady_reads(graph, locality_order(graph), nodes / 16), nodes + nodes / 50) << spec;
  }
}

TEST(LocalityOrder, IsTheSameEveryTime) {
  const Graph graph = make_graph("watts-strogatz:8:0.1", 500, 1).graph;
  EXPECT_EQ(locality_order(graph), locality_order(graph));
}

}  // namespace
}  // namespace shoal
