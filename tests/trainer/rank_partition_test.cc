#include "trainer/rank_partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "store/error.h"
#include "trainer/random.h"

namespace shoal {
namespace {

const std::vector<std::pair<std::string, NodeId>> kGraphs = {
    {"ring", 1000},
    {"star", 300},
    {"complete", 60},
    {"torus", 1024},
    {"hypercube", 256},
    {"exponential", 300},
    {"ring-lattice:8", 1000},
    {"random-regular:8", 1000},
    {"erdos-renyi:0.02", 400},
    {"watts-strogatz:8:0.1", 1000},
    {"barabasi-albert:4", 1000},
    {"ring", 7},
    {"star", 7},
};
const std::vector<unsigned> kRanks = {1, 2, 3, 4, 7};

RankPartition split(const Graph& graph, unsigned ranks, const std::vector<float>& work = {}, std::uint64_t seed = 1) {
  return split_over_ranks(graph, work, ranks, seed, locality_order(graph));
}

std::uint64_t cut_edges(const Graph& graph, unsigned ranks) { return figures(split(graph, ranks), graph, 1).cut_edges; }

std::vector<double> work_of_ranks(const RankPartition& partition, const std::vector<float>& work) {
  std::vector<double> sums(partition.ranks);
  for (std::size_t i = 0; i < work.size(); ++i) sums.at(partition.owner[i]) += double{work[i]};
  return sums;
}

std::vector<float> random_work(NodeId nodes) {
  std::vector<float> work(nodes);
  RandomStream random(1, Purpose::kTest);
  for (float& each : work) each = std::exp(2 * static_cast<float>(random.normal()));
  return work;
}

// The bound, and what rounding may add.
double most_work(const std::vector<float>& work, unsigned ranks) {
  const double mean = std::accumulate(work.begin(), work.end(), 0.0) / ranks;
  return (mean + double{std::ranges::max(work)}) * (1 + 1e-6);
}

// Numbered so that numbers say nothing about who is in which.
Graph two_cliques(NodeId size) {
  std::vector<std::pair<NodeId, NodeId>> edges = {{0, 1}};
  for (NodeId i = 0; i < size; ++i) {
    for (NodeId j = 0; j < i; ++j) {
      edges.emplace_back(2 * i, 2 * j);
      edges.emplace_back(2 * i + 1, 2 * j + 1);
    }
  }
  return Graph(2 * size, edges);
}

std::string refusal(const Graph& graph, unsigned ranks) {
  try {
    split(graph, ranks);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kUsage) << error.what();
    return error.what();
  }
  return "(was accepted)";
}

TEST(RankPartition, GivesEveryRankItsShareOfTheNodes) {
  for (const auto& [spec, nodes] : kGraphs) {
    const Graph graph = make_graph(spec, nodes, 1).graph;
    for (const unsigned ranks : kRanks) {
      const RankPartition partition = split(graph, ranks);
      const std::vector<NodeId> counts = figures(partition, graph, 1).nodes;
      ASSERT_EQ(partition.owner.size(), nodes);
      ASSERT_EQ(counts.size(), ranks) << spec;
      EXPECT_EQ(std::reduce(counts.begin(), counts.end()), nodes) << spec;
      EXPECT_GE(std::ranges::min(counts), 1u) << spec << " on " << ranks;
      EXPECT_LE(std::ranges::max(counts), (nodes + ranks - 1) / ranks) << spec << " on " << ranks;
    }
  }
}

TEST(RankPartition, CutsNoMoreThanARandomSplitOnAnyGraph) {
  for (const auto& [spec, nodes] : kGraphs) {
    const Graph graph = make_graph(spec, nodes, 1).graph;
    for (const unsigned ranks : kRanks) {
      const PartitionFigures found = figures(split(graph, ranks), graph, 1);
      EXPECT_LE(found.cut_edges, found.random_cut_edges) << spec << " on " << ranks;
    }
  }
}

TEST(RankPartition, ReadsFewerRecordsWhereThatIsAskedFor) {
  for (const auto& [spec, nodes] : kGraphs) {
    const Graph graph = make_graph(spec, nodes, 1).graph;
    const std::vector<float> work = random_work(nodes);
    for (const unsigned ranks : kRanks) {
      const PartitionFigures cut = figures(split(graph, ranks, work), graph, 1);
      const RankPartition partition =
          split_over_ranks(graph, work, ranks, 1, locality_order(graph), Fewest::kRemoteReads);
      const PartitionFigures reads = figures(partition, graph, 1);
      EXPECT_LE(reads.remote_reads, cut.remote_reads) << spec << " on " << ranks;
      EXPECT_LE(std::ranges::max(partition.work), most_work(work, ranks)) << spec << " on " << ranks;
      EXPECT_GE(std::ranges::min(reads.nodes), 1u) << spec << " on " << ranks;
    }
  }
  const Graph regular = make_graph("random-regular:8", 1000, 1).graph;
  const RankPartition partition = split_over_ranks(regular, {}, 4, 1, locality_order(regular), Fewest::kRemoteReads);
  EXPECT_LE(static_cast<double>(figures(partition, regular, 1).remote_reads),
            0.9 * static_cast<double>(figures(split(regular, 4), regular, 1).remote_reads));
}

// What a split that only cuts the order would not reach.
TEST(RankPartition, CutsFewEdgesWhereFewCanBeCut) {
  EXPECT_LE(cut_edges(make_graph("torus", 1024, 1).graph, 2), 70u) << "64 is the least";
  EXPECT_LE(cut_edges(make_graph("torus", 1024, 1).graph, 4), 140u) << "128 is the least";
  EXPECT_EQ(cut_edges(make_graph("hypercube", 256, 1).graph, 2), 128u);
  EXPECT_LE(cut_edges(make_graph("random-regular:8", 1000, 1).graph, 2), 1040u) << "a random split cuts 2000";
}

TEST(RankPartition, CutsARingIntoArcs) {
  const Graph graph = make_graph("ring", 5000, 1).graph;
  for (const unsigned ranks : {2U, 3U, 4U, 7U, 50U}) EXPECT_EQ(cut_edges(graph, ranks), ranks);
}

TEST(RankPartition, FindsTwoCliquesJoinedByAnEdge) {
  for (const NodeId size : {NodeId{3}, NodeId{10}, NodeId{100}}) {
    const Graph graph = two_cliques(size);
    const PartitionFigures found = figures(split(graph, 2), graph, 1);
    EXPECT_EQ(found.cut_edges, 1u);
    EXPECT_EQ(found.remote_reads, 2u) << "one each way";
    EXPECT_THAT(found.nodes, testing::ElementsAre(size, size));
    EXPECT_EQ(found.imbalance, 0);
  }
}

TEST(RankPartition, BalancesWorkNotNodes) {
  for (const auto& [spec, nodes] : kGraphs) {
    const Graph graph = make_graph(spec, nodes, 1).graph;
    const std::vector<float> work = random_work(nodes);
    const double sum = std::accumulate(work.begin(), work.end(), 0.0);
    for (const unsigned ranks : kRanks) {
      const RankPartition partition = split(graph, ranks, work);
      const std::vector<double> works = work_of_ranks(partition, work);
      EXPECT_LE(std::ranges::max(works), most_work(work, ranks)) << spec << " on " << ranks;
      EXPECT_EQ(partition.work, works);
      EXPECT_NEAR(figures(partition, graph, 1).imbalance, std::ranges::max(works) * ranks / sum - 1, 1e-9);
      EXPECT_GE(std::ranges::min(figures(partition, graph, 1).nodes), 1u) << spec << " on " << ranks;
    }
  }
}

TEST(RankPartition, GivesABusyHalfOfARingToMostRanks) {
  const Graph graph = make_graph("ring", 1200, 1).graph;
  std::vector<float> work(1200, 1);
  std::fill_n(work.begin(), 600, 3.0F);
  const RankPartition partition = split(graph, 4, work);
  EXPECT_THAT(partition.work, testing::Each(testing::Lt(600 + 3)));
  EXPECT_EQ(figures(partition, graph, 1).cut_edges, 4u);
}

TEST(RankPartition, GivesEveryRankANodeWhenOneHasNearlyAllTheWork) {
  const Graph graph = make_graph("ring", 20, 1).graph;
  for (const NodeId busy : {NodeId{0}, NodeId{10}, NodeId{19}}) {
    std::vector<float> work(20, 0.0F);
    work[busy] = 1e6F;
    const RankPartition partition = split(graph, 7, work);
    EXPECT_THAT(figures(partition, graph, 1).nodes, testing::Each(testing::Ge(1u)));
  }
  EXPECT_THAT(figures(split(graph, 20), graph, 1).nodes, testing::Each(1u));
}

TEST(RankPartition, TakesEqualWorkForNoWorkGiven) {
  const Graph graph = make_graph("random-regular:4", 200, 1).graph;
  EXPECT_EQ(split(graph, 3, std::vector<float>(200, 0.1F)).owner, split(graph, 3).owner);
  EXPECT_EQ(split(graph, 3, std::vector<float>(200, 0.0F)).owner, split(graph, 3).owner);
  EXPECT_EQ(figures(split(graph, 3, std::vector<float>(200, 0.0F)), graph, 1).imbalance, 0);
}

TEST(RankPartition, DependsOnItsArgumentsAlone) {
  const Graph graph = make_graph("random-regular:8", 1000, 1).graph;
  EXPECT_EQ(split(graph, 4).owner, split(graph, 4).owner);
  EXPECT_EQ(split(graph, 4, random_work(1000)).owner, split(graph, 4, random_work(1000)).owner);
  EXPECT_NE(split(graph, 4, {}, 1).owner, split(graph, 4, {}, 2).owner) << "the seed is used";
}

TEST(RankPartition, SplitsGraphsInPieces) {
  std::vector<std::pair<NodeId, NodeId>> pairs;
  for (NodeId i = 0; i < 50; ++i) pairs.emplace_back(i, 99 - i);
  EXPECT_EQ(cut_edges(Graph(100, pairs), 5), 0u);
  EXPECT_EQ(cut_edges(Graph(100, {}), 7), 0u);
}

TEST(RankPartition, RefusesMoreRanksThanNodes) {
  EXPECT_THAT(refusal(make_graph("ring", 5, 1).graph, 6), testing::HasSubstr("6 ranks for 5 nodes"));
  EXPECT_THAT(refusal(Graph(), 1), testing::HasSubstr("1 ranks for 0 nodes"));
  EXPECT_THAT(refusal(make_graph("ring", 70'000, 1).graph, 65'536), testing::HasSubstr("65535"));
}

TEST(PartitionFigures, CountsEdgesAndRecords) {
  // 0 reads 1 and 2, which are on the other rank and both read 0; 3 is read by nobody elsewhere.
  const Graph graph(4, {{0, 1}, {0, 2}, {2, 3}});
  const PartitionFigures found = figures({{0, 1, 1, 1}, 2, {1, 3}}, graph, 1);
  EXPECT_THAT(found.nodes, testing::ElementsAre(1, 3));
  EXPECT_EQ(found.cut_edges, 2u);
  EXPECT_EQ(found.remote_reads, 3u) << "1 and 2 by one rank, 0 once by the other";
  EXPECT_DOUBLE_EQ(found.imbalance, 0.5);
}

TEST(PartitionFigures, ComparesWithASplitThatKnowsNothing) {
  const Graph graph = make_graph("ring-lattice:8", 4000, 1).graph;
  const PartitionFigures found = figures(split(graph, 4), graph, 1);
  EXPECT_NEAR(static_cast<double>(found.random_cut_edges), 0.75 * 16'000, 0.02 * 16'000);
  // Each of the 3 other ranks has one of the 8 neighbours with probability 1 - 0.75^8.
  EXPECT_NEAR(static_cast<double>(found.random_remote_reads), 3 * (1 - std::pow(0.75, 8)) * 4000, 250);
}

}  // namespace
}  // namespace shoal
