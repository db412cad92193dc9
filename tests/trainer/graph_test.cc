#include "trainer/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "store/error.h"
#include "trainer/disjoint_sets.h"

namespace shoal {
namespace {

Graph make(const std::string& spec, NodeId nodes, std::uint64_t seed = 1) {
  return make_graph(spec, nodes, seed).graph;
}

std::vector<NodeId> row(const Graph& graph, NodeId node) {
  return {graph.neighbours(node).begin(), graph.neighbours(node).end()};
}

std::vector<std::vector<NodeId>> rows(const Graph& graph) {
  std::vector<std::vector<NodeId>> all;
  for (NodeId i = 0; i < graph.nodes(); ++i) all.push_back(row(graph, i));
  return all;
}

bool connected(const Graph& graph) {
  DisjointSets parts(graph.nodes());
  for (NodeId i = 0; i < graph.nodes(); ++i) {
    for (const NodeId j : graph.neighbours(i)) parts.join(i, j);
  }
  return parts.count() == 1;
}

std::string refusal(const std::string& spec, NodeId nodes) {
  try {
    make_graph(spec, nodes, 1);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kUsage) << error.what();
    return error.what();
  }
  return "(was accepted)";
}

TEST(Graph, DropsLoopsAndRepeatedEdges) {
  const Graph graph(4, {{2, 0}, {0, 2}, {1, 1}, {3, 2}, {2, 0}});
  EXPECT_EQ(graph.edges(), 2u);
  EXPECT_EQ(row(graph, 0), (std::vector<NodeId>{2}));
  EXPECT_EQ(row(graph, 1), (std::vector<NodeId>{}));
  EXPECT_EQ(row(graph, 2), (std::vector<NodeId>{0, 3}));
  EXPECT_EQ(graph.max_degree(), 2u);
}

TEST(Graph, IsEmptyWhenDefaultConstructed) {
  const Graph graph;
  EXPECT_EQ(graph.nodes(), 0u);
  EXPECT_EQ(graph.edges(), 0u);
}

struct Shape {
  std::string spec;
  std::vector<NodeId> sizes;
};

const std::vector<Shape> kShapes = {
    {"ring", {1, 2, 3, 4, 50}},
    {"star", {1, 2, 3, 50}},
    {"complete", {1, 2, 3, 20}},
    {"torus", {1, 2, 3, 4, 6, 7, 8, 9, 12, 36, 60}},
    {"hypercube", {1, 2, 4, 8, 64}},
    {"exponential", {1, 2, 3, 5, 8, 12, 50}},
    {"ring-lattice:2", {3, 4, 50}},
    {"ring-lattice:6", {7, 8, 50}},
    {"random-regular:0", {1}},
    {"random-regular:1", {2}},
    {"random-regular:2", {3, 4, 5, 6, 7, 50}},
    {"random-regular:3", {4, 6, 8, 50}},
    {"random-regular:4", {5, 6, 7, 8, 9, 10, 11, 50}},
    {"random-regular:8", {9, 10, 11, 12, 14, 16, 17, 18, 50, 500}},
    {"random-regular:25", {26, 28, 48, 50, 52, 100}},
    {"erdos-renyi:0.01", {1, 2, 3, 50, 500}},
    {"erdos-renyi:0.5", {1, 2, 3, 50}},
    {"erdos-renyi:1", {1, 2, 3, 20}},
    {"watts-strogatz:2:0.5", {3, 4, 5, 50}},
    {"watts-strogatz:4:0.1", {5, 6, 7, 50, 500}},
    {"watts-strogatz:6:1", {7, 8, 9, 50}},
    {"barabasi-albert:1", {2, 3, 50}},
    {"barabasi-albert:4", {5, 6, 50, 500}},
};

TEST(EveryGraph, IsSimpleSymmetricSortedAndConnected) {
  for (const Shape& shape : kShapes) {
    for (const NodeId nodes : shape.sizes) {
      for (const std::uint64_t seed : {1, 2, 3}) {
        SCOPED_TRACE(testing::Message() << shape.spec << " of " << nodes << ", seed " << seed);
        const Graph graph = make(shape.spec, nodes, seed);
        ASSERT_EQ(graph.nodes(), nodes);
        std::uint64_t ends = 0;
        std::uint32_t largest = 0;
        for (NodeId i = 0; i < nodes; ++i) {
          const auto neighbours = graph.neighbours(i);
          ends += graph.degree(i);
          largest = std::max(largest, graph.degree(i));
          EXPECT_TRUE(std::ranges::adjacent_find(neighbours, std::greater_equal<>()) == neighbours.end());
          for (const NodeId j : neighbours) {
            ASSERT_LT(j, nodes);
            EXPECT_NE(i, j);
            EXPECT_TRUE(std::ranges::binary_search(graph.neighbours(j), i));
          }
        }
        EXPECT_EQ(ends, 2 * graph.edges());
        EXPECT_EQ(largest, graph.max_degree());
        EXPECT_TRUE(connected(graph));
      }
    }
  }
}

TEST(EveryGraph, IsTheSameForTheSameSeedAndRandomOnesDifferForAnother) {
  for (const std::string spec : {"ring", "torus", "random-regular:4", "random-regular:45", "erdos-renyi:0.2",
                                 "watts-strogatz:4:0.3", "barabasi-albert:3"}) {
    const bool random = spec.find(':') != std::string::npos;
    EXPECT_EQ(rows(make(spec, 50, 7)), rows(make(spec, 50, 7))) << spec;
    EXPECT_EQ(rows(make(spec, 50, 7)) == rows(make(spec, 50, 8)), !random) << spec;
  }
}

TEST(Shapes, LinkWhomTheirNamesSay) {
  EXPECT_EQ(row(make("ring", 5), 0), (std::vector<NodeId>{1, 4}));
  EXPECT_EQ(row(make("star", 4), 0), (std::vector<NodeId>{1, 2, 3}));
  EXPECT_EQ(row(make("complete", 4), 1), (std::vector<NodeId>{0, 2, 3}));
  EXPECT_EQ(row(make("torus", 12), 0), (std::vector<NodeId>{1, 3, 4, 8}));
  EXPECT_EQ(row(make("torus", 8), 0), (std::vector<NodeId>{1, 3, 4})) << "a side of 2 has one edge, not two";
  EXPECT_EQ(row(make("hypercube", 8), 5), (std::vector<NodeId>{1, 4, 7}));
  EXPECT_EQ(row(make("exponential", 11), 0), (std::vector<NodeId>{1, 2, 3, 4, 7, 8, 9, 10}));
  EXPECT_EQ(row(make("ring-lattice:4", 9), 1), (std::vector<NodeId>{0, 2, 3, 8}));
}

TEST(Shapes, ATorusOfAPrimeIsARingAndSaysSo) {
  const NamedGraph torus = make_graph("torus", 13, 1);
  EXPECT_EQ(rows(torus.graph), rows(make("ring", 13)));
  EXPECT_THAT(torus.note, testing::HasSubstr("ring"));
}

TEST(RandomRegular, GivesEachOfAMillionNodesItsDegree) {
  constexpr NodeId kNodes = 1'000'000;
  const Graph graph = make("random-regular:8", kNodes);
  ASSERT_EQ(graph.nodes(), kNodes);
  EXPECT_EQ(graph.edges(), 4ULL * kNodes);
  for (NodeId i = 0; i < kNodes; ++i) {
    const auto neighbours = graph.neighbours(i);
    ASSERT_EQ(neighbours.size(), 8U) << "node " << i;
    ASSERT_TRUE(std::ranges::adjacent_find(neighbours, std::greater_equal<>()) == neighbours.end()) << "node " << i;
    ASSERT_TRUE(std::ranges::find(neighbours, i) == neighbours.end()) << "node " << i;
  }
  EXPECT_TRUE(connected(graph));
}

TEST(RandomRegular, GivesEveryNodeItsDegreeHoweverDense) {
  for (const NodeId nodes : {NodeId{24}, NodeId{25}}) {
    for (std::uint32_t degree = 2; degree < nodes; ++degree) {
      if (nodes * degree % 2 != 0) continue;
      const Graph graph = make("random-regular:" + std::to_string(degree), nodes);
      for (NodeId i = 0; i < nodes; ++i) EXPECT_EQ(graph.degree(i), degree);
    }
  }
}

TEST(RandomRegular, MakesOneCycleOfDegreeTwo) {
  // A random 2-regular graph of 2000 nodes falls into about 4 cycles: this sees the joining at work.
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Graph graph = make("random-regular:2", 2000, seed);
    EXPECT_EQ(graph.edges(), 2000u);
    EXPECT_TRUE(connected(graph)) << seed;
  }
}

TEST(RandomRegular, LinksAllPairsAlike) {
  // 300 draws of 20 nodes of degree 4: each pair is expected 63 times, with a standard deviation of 7.
  std::vector<int> counts(400);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Graph graph = make("random-regular:4", 20, seed);
    for (NodeId i = 0; i < 20; ++i) {
      for (const NodeId j : graph.neighbours(i)) ++counts[i * 20 + j];
    }
  }
  for (NodeId i = 0; i < 20; ++i) {
    for (NodeId j = 0; j < i; ++j) EXPECT_NEAR(counts[i * 20 + j], 300 * 4 / 19, 35) << i << " " << j;
  }
}

TEST(ErdosRenyi, HasAboutAsManyEdgesAsExpected) {
  const Graph graph = make("erdos-renyi:0.02", 2000);
  EXPECT_NEAR(static_cast<double>(graph.edges()), 39980, 4 * 198);
}

TEST(ErdosRenyi, SaysHowManyEdgesJoinedItsParts) {
  const NamedGraph sparse = make_graph("erdos-renyi:0.0001", 1000, 1);
  EXPECT_THAT(sparse.note, testing::ContainsRegex("[0-9]+ edges were added to join [0-9]+ parts"));
  EXPECT_TRUE(connected(sparse.graph));
  EXPECT_EQ(make_graph("erdos-renyi:0.02", 1000, 1).note, "");
}

TEST(WattsStrogatz, IsTheLatticeWithoutRewiring) {
  for (const NodeId nodes : {NodeId{7}, NodeId{8}, NodeId{100}}) {
    EXPECT_EQ(rows(make("watts-strogatz:6:0", nodes)), rows(make("ring-lattice:6", nodes)));
  }
}

TEST(WattsStrogatz, KeepsTheNumberOfEdgesAndMovesTheShareAskedFor) {
  const NamedGraph named = make_graph("watts-strogatz:8:0.25", 4000, 1);
  ASSERT_EQ(named.note, "");
  EXPECT_EQ(named.graph.edges(), 16'000u);
  std::uint64_t kept = 0;
  for (NodeId i = 0; i < 4000; ++i) {
    for (const NodeId j : named.graph.neighbours(i)) kept += (j + 4000 - i) % 4000 <= 4 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(kept), 12'000, 250);
}

TEST(BarabasiAlbert, BringsMEdgesPerNodeAndGrowsHubs) {
  const Graph graph = make("barabasi-albert:3", 3000);
  EXPECT_EQ(graph.edges(), 3u * (3000 - 3));
  EXPECT_GT(graph.max_degree(), 60u);
}

TEST(MakeGraph, RefusesWhatCannotBe) {
  using testing::HasSubstr;
  EXPECT_THAT(refusal("random-regular:3", 5), HasSubstr("even"));
  EXPECT_THAT(refusal("random-regular:8", 8), HasSubstr("below the number of nodes"));
  EXPECT_THAT(refusal("random-regular:1", 4), HasSubstr("connected"));
  EXPECT_THAT(refusal("random-regular:0", 4), HasSubstr("connected"));
  EXPECT_THAT(refusal("ring-lattice:3", 9), HasSubstr("even"));
  EXPECT_THAT(refusal("ring-lattice:0", 9), HasSubstr("even"));
  EXPECT_THAT(refusal("ring-lattice:4", 4), HasSubstr("below the number of nodes"));
  EXPECT_THAT(refusal("watts-strogatz:5:0.1", 9), HasSubstr("even"));
  EXPECT_THAT(refusal("watts-strogatz:4:1.5", 9), HasSubstr("from 0 to 1"));
  EXPECT_THAT(refusal("erdos-renyi:0", 9), HasSubstr("above 0"));
  EXPECT_THAT(refusal("erdos-renyi:1.01", 9), HasSubstr("above 0"));
  EXPECT_THAT(refusal("barabasi-albert:0", 9), HasSubstr("at least 1"));
  EXPECT_THAT(refusal("barabasi-albert:9", 9), HasSubstr("below the number of nodes"));
  EXPECT_THAT(refusal("hypercube", 12), HasSubstr("take 8 or 16"));
  EXPECT_THAT(refusal("ring", 0), HasSubstr("at least 1"));
}

TEST(MakeGraph, RefusesMoreEdgesThanARoundCanPlan) {
  EXPECT_THAT(refusal("complete", 20'001), testing::HasSubstr("--algorithm allreduce"));
  EXPECT_THAT(refusal("erdos-renyi:0.5", 100'000), testing::HasSubstr("--algorithm allreduce"));
  EXPECT_THAT(refusal("random-regular:50000", 100'000), testing::HasSubstr("edges"));
}

TEST(MakeGraph, ShowsAnExampleForMissingOrBrokenNumbers) {
  for (const std::string spec : {"random-regular", "random-regular:", "random-regular:x", "random-regular:-8",
                                 "random-regular:8.5", "random-regular:8:1", "random-regular:99999999999"}) {
    EXPECT_THAT(refusal(spec, 100), testing::HasSubstr("for example random-regular:8")) << spec;
  }
  EXPECT_THAT(refusal("watts-strogatz:4", 100), testing::HasSubstr("watts-strogatz:8:0.1"));
  EXPECT_THAT(refusal("erdos-renyi:nan", 100), testing::HasSubstr("erdos-renyi:0.01"));
  EXPECT_THAT(refusal("ring:3", 100), testing::HasSubstr("for example ring"));
  EXPECT_THAT(refusal("file:", 0), testing::HasSubstr("file:PATH"));
}

TEST(MakeGraph, ListsTheChoicesForAnUnknownName) {
  for (const std::string spec : {"rink", "", "random_regular:8"}) {
    const std::string message = refusal(spec, 100);
    EXPECT_THAT(message, testing::StartsWith("--graph " + spec + ": "));
    EXPECT_THAT(message, testing::HasSubstr("ring-lattice:K, random-regular:D"));
  }
  for (const std::string name :
       {"ring", "star", "complete", "torus", "hypercube", "exponential", "ring-lattice:K", "random-regular:D",
        "erdos-renyi:P", "watts-strogatz:K:B", "barabasi-albert:M", "file:PATH"}) {
    EXPECT_THAT(graph_choices(), testing::HasSubstr("  " + name + " "));
  }
}

}  // namespace
}  // namespace shoal
