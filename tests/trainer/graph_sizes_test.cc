#include "trainer/graph_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/graph.h"

namespace shoal {
namespace {

using testing::ElementsAre;

const char* const kKinds[] = {"ring",
                              "torus",
                              "star",
                              "complete",
                              "hypercube",
                              "exponential",
                              "random-regular:3",
                              "ring-lattice:4",
                              "watts-strogatz:4:0.1",
                              "barabasi-albert:2",
                              "erdos-renyi:0.2"};

TEST(GraphSizes, EveryNumberOfNodesThatIsSaidToBeValidIs) {
  for (const char* kind : kKinds) {
    for (const NodeId most : {8U, 15U, 33U, 100U}) {
      const NodeId nodes = nodes_at_most(kind, most);
      EXPECT_LE(nodes, most) << kind;
      EXPECT_GT(nodes, most / 2) << kind;
      EXPECT_EQ(make_graph(kind, nodes, 1).graph.nodes(), nodes) << kind;
    }
  }
  EXPECT_EQ(nodes_at_most("random-regular:8", 8), 0U) << "a node needs more others than there are";
  EXPECT_EQ(nodes_at_most("file:a.txt", 100), 0U);
}

TEST(GraphSizes, AResizedRandomGraphKeepsItsDegree) {
  const Graph large = make_graph("erdos-renyi:0.02", 2000, 1).graph;
  const Graph small = make_graph(resized_graph("erdos-renyi:0.02", 2000, 500), 500, 1).graph;
  EXPECT_NEAR(static_cast<double>(small.edges()) / 500, static_cast<double>(large.edges()) / 2000, 1);
  EXPECT_EQ(resized_graph("torus", 2000, 500), "torus");
}

TEST(GraphSizes, SparserGraphsHaveFewerAndFewerNeighbours) {
  EXPECT_THAT(sparser_graphs("random-regular:8"), ElementsAre("random-regular:4", "random-regular:2", "ring"));
  EXPECT_THAT(sparser_graphs("watts-strogatz:6:0.1"), ElementsAre("watts-strogatz:2:0.1", "ring"));
  EXPECT_THAT(sparser_graphs("ring"), ElementsAre());
  for (const char* kind : kKinds) {
    std::uint64_t edges = make_graph(kind, 64, 1).graph.edges();
    for (const std::string& sparser : sparser_graphs(kind)) {
      const std::uint64_t fewer = make_graph(sparser, 64, 1).graph.edges();
      EXPECT_LE(fewer, edges + 1) << sparser << " for " << kind << "; a ring has one more than a star";
      edges = fewer;
    }
  }
}

}  // namespace
}  // namespace shoal
