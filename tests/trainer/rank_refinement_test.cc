#include "trainer/rank_refinement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "trainer/random.h"
#include "trainer/rank_partition.h"

namespace shoal {
namespace {

const std::vector<std::pair<std::string, NodeId>> kGraphs = {
    {"ring", 200},
    {"star", 100},
    {"complete", 40},
    {"torus", 256},
    {"hypercube", 128},
    {"erdos-renyi:0.05", 200},
    {"random-regular:8", 300},
    {"barabasi-albert:4", 300},
};

// Nodes dealt out at random, weights from 1 to 5.
struct Start {
  Start(const Graph& graph, unsigned ranks) : weights(graph.nodes()), owner(graph.nodes()), loads(ranks) {
    RandomStream random(1, Purpose::kTest);
    for (NodeId i = 0; i < graph.nodes(); ++i) {
      weights[i] = 1 + random.below(5);
      owner[i] = static_cast<std::uint16_t>(i < ranks ? i : random.below(ranks));
      loads[owner[i]] += weights[i];
    }
    most_load = std::ranges::max(loads);
  }

  std::vector<std::uint32_t> weights;
  std::vector<std::uint16_t> owner;
  std::vector<std::uint64_t> loads;
  std::uint64_t most_load;
};

PartitionFigures figures_of(const Graph& graph, unsigned ranks, const std::vector<std::uint16_t>& owner) {
  return figures({owner, ranks, std::vector<double>(ranks, 1)}, graph, 1);
}

void expect_within_bounds(const Start& start) {
  std::vector<std::uint64_t> loads(start.loads.size());
  for (std::size_t i = 0; i < start.owner.size(); ++i) loads[start.owner[i]] += start.weights[i];
  EXPECT_LE(std::ranges::max(loads), start.most_load);
  EXPECT_GT(std::ranges::min(loads), 0u);
}

template <typename Check>
void for_all_graphs(Check check) {
  for (const auto& [spec, nodes] : kGraphs) {
    for (const unsigned ranks : {2U, 3U, 7U, 30U}) {
      SCOPED_TRACE(spec + " on " + std::to_string(ranks));
      check(make_graph(spec, nodes, 1).graph, ranks);
    }
  }
}

TEST(RankRefinement, CutsAsManyEdgesFewerAsItSays) {
  for_all_graphs([](const Graph& graph, unsigned ranks) {
    Start start(graph, ranks);
    const std::uint64_t before = figures_of(graph, ranks, start.owner).cut_edges;
    RankRefinement refinement(graph, start.weights, ranks, start.most_load, start.owner);
    const std::uint64_t swept = refinement.sweep();
    EXPECT_EQ(figures_of(graph, ranks, start.owner).cut_edges, before - swept);
    expect_within_bounds(start);
    const std::uint64_t refined = refinement.refine(10);
    EXPECT_EQ(figures_of(graph, ranks, start.owner).cut_edges, before - swept - refined);
    expect_within_bounds(start);
  });
}

TEST(RankRefinement, ReadsAsManyRecordsFewerAsItSays) {
  for_all_graphs([](const Graph& graph, unsigned ranks) {
    Start start(graph, ranks);
    const std::uint64_t before = figures_of(graph, ranks, start.owner).remote_reads;
    const std::uint64_t gained =
        RankRefinement(graph, start.weights, ranks, start.most_load, start.owner).sweep_reads();
    EXPECT_EQ(figures_of(graph, ranks, start.owner).remote_reads, before - gained);
    expect_within_bounds(start);
  });
}

TEST(RankRefinement, BalancesToLessThanANodeAboveTheMean) {
  for_all_graphs([](const Graph& graph, unsigned ranks) {
    Start start(graph, ranks);
    RankRefinement refinement(graph, start.weights, ranks, start.most_load, start.owner);
    refinement.sweep();
    const std::uint64_t total = std::reduce(start.loads.begin(), start.loads.end());
    start.most_load = (total + ranks - 1) / ranks + std::ranges::max(start.weights) - 1;
    refinement.balance(start.most_load);
    expect_within_bounds(start);
  });
}

// Five nodes on one rank and three on the other: the one that goes is the one with nobody to leave.
TEST(RankRefinement, BalancesWithTheNodesThatCostLeast) {
  const Graph graph(8, {{0, 1}, {1, 2}, {2, 3}, {0, 3}, {0, 2}, {1, 3}, {4, 5}, {4, 6}, {4, 7}, {5, 6}});
  std::vector<std::uint16_t> owner = {0, 0, 0, 0, 0, 1, 1, 1};
  const std::vector<std::uint32_t> weights(8, 1);
  RankRefinement(graph, weights, 2, 5, owner).balance(4);
  EXPECT_EQ(owner, (std::vector<std::uint16_t>{0, 0, 0, 0, 1, 1, 1, 1}));
}

TEST(RankRefinement, RefinesWhatSweepsCannot) {
  const Graph graph = make_graph("random-regular:8", 1000, 1).graph;
  Start start(graph, 4);
  RankRefinement refinement(graph, start.weights, 4, start.most_load, start.owner);
  while (refinement.sweep() > 0) continue;
  EXPECT_GT(refinement.refine(10), 20u);
}

// Full ranks can only exchange nodes.
TEST(RankRefinement, WorksUnderTheTightestBound) {
  const Graph graph(8,
                    {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}, {4, 5}, {4, 6}, {4, 7}, {5, 6}, {5, 7}, {6, 7}});
  std::vector<std::uint16_t> owner = {0, 0, 0, 1, 0, 1, 1, 1};
  const std::vector<std::uint32_t> weights(8, 1);
  RankRefinement refinement(graph, weights, 2, 4, owner);
  EXPECT_EQ(refinement.sweep(), 0u);
  EXPECT_EQ(refinement.refine(1), 6u);
  EXPECT_EQ(owner, (std::vector<std::uint16_t>{0, 0, 0, 0, 1, 1, 1, 1}));
}

TEST(NodeQueues, GivesTheHighestPriorityWhateverWasPutBefore) {
  constexpr NodeId kNodes = 20;
  NodeQueues queues(kNodes, 2);
  RandomStream random(1, Purpose::kTest);
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<int> priorities(kNodes, -1);
    for (int i = 0; i < 2000; ++i) {
      const NodeId node = random.below(kNodes);
      const int priority = static_cast<int>(random.below(50));
      if (random.below(4) == 0) {
        queues.remove(node);
        priorities[node] = -1;
      } else {
        queues.put(node % 2, node, priority);
        priorities[node] = priority;
      }
      for (unsigned queue = 0; queue < 2; ++queue) {
        int highest = -1;
        for (NodeId each = queue; each < kNodes; each += 2) highest = std::max(highest, priorities[each]);
        const NodeQueues::Entry* top = queues.top(queue);
        ASSERT_EQ(top != nullptr ? top->priority : -1, highest);
        if (top == nullptr) continue;
        ASSERT_EQ(priorities[top->node], highest);
      }
    }
    queues.clear();
    EXPECT_EQ(queues.top(0), nullptr);
  }
}

}  // namespace
}  // namespace shoal
