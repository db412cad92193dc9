// The split that a run uses: the same work for every rank, counted in the rounds that the algorithm plans.
#include "trainer/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "trainer/train_options.h"

namespace shoal {
namespace {

constexpr std::uint64_t kRounds = 2000;

TrainOptions options_of(const std::string& algorithm, const std::string& graph, NodeId nodes) {
  TrainOptions options;
  options.algorithm = algorithm;
  options.model = "quadratic:20";
  options.graph = graph;
  options.nodes = nodes;
  options.seed = 5;
  return options;
}

// By node, in the mean of a round: its local steps, and the records that it copies, mixes or adds.
std::vector<double> work_in_plans(const Experiment& experiment) {
  std::vector<double> work(experiment.options.nodes);
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const RoundPlan plan = experiment.algorithm->plan(round);
    for (std::size_t step = 0; step < plan.accesses->size(); ++step) {
      const unsigned steps = plan.local_steps.empty() ? experiment.options.local_steps : plan.local_steps[step];
      const auto records = static_cast<double>(1 + plan.accesses->reads(step).size());
      work[plan.accesses->node(step)] += (steps + Algorithm::kRecordWork * records) / kRounds;
    }
  }
  return work;
}

// By how much the rank with most to do is above the mean.
double imbalance(const RankPartition& partition, const std::vector<double>& work) {
  std::vector<double> of_ranks(partition.ranks);
  for (std::size_t node = 0; node < work.size(); ++node) of_ranks[partition.owner[node]] += work[node];
  const double mean = std::accumulate(of_ranks.begin(), of_ranks.end(), 0.0) / partition.ranks;
  return std::ranges::max(of_ranks) / mean - 1;
}

RankPartition nodes_alike(const Experiment& experiment, unsigned ranks) {
  return split_over_ranks(experiment.graph(), {}, ranks, experiment.options.seed, experiment.order,
                          Fewest::kRemoteReads);
}

class SplitOf : public testing::TestWithParam<std::string> {};

TEST_P(SplitOf, ExpectsTheWorkThatThePlansHave) {
  for (const char* const graph : {"barabasi-albert:4", "star", "random-regular:8"}) {
    TrainOptions options = options_of(GetParam(), graph, 300);
    options.local_steps = 2;
    const Experiment experiment(options);
    const std::vector<double> work = work_in_plans(experiment);
    for (NodeId node = 0; node < 300; ++node) {
      EXPECT_NEAR(experiment.algorithm->expected_work(node), work[node], 0.05 * work[node]) << graph << " " << node;
    }
  }
}

TEST_P(SplitOf, BalancesTheWorkWhereDegreesDiffer) {
  const Experiment experiment(options_of(GetParam(), "barabasi-albert:4", 2000));
  const std::vector<double> work = work_in_plans(experiment);
  const double mean = std::accumulate(work.begin(), work.end(), 0.0);
  for (const unsigned ranks : {2U, 4U, 7U}) {
    SCOPED_TRACE(ranks);
    const double heaviest = std::ranges::max(work) / (mean / ranks);
    const double found = imbalance(partition_for(experiment, ranks), work);
    EXPECT_LE(found, heaviest + 0.002) << "less than a node, and what chance does in so many rounds";
    EXPECT_LT(found, imbalance(nodes_alike(experiment, ranks), work));
  }
}

TEST_P(SplitOf, GivesRanksTheSameNumberOfNodesWhereAllDegreesAreTheSame) {
  for (const char* const graph : {"random-regular:8", "torus", "hypercube"}) {
    const Experiment experiment(options_of(GetParam(), graph, 256));
    for (const unsigned ranks : {2U, 3U}) {
      EXPECT_EQ(partition_for(experiment, ranks).owner, nodes_alike(experiment, ranks).owner) << graph;
    }
  }
}

TEST_P(SplitOf, IsTheSameForARunOfMoreRounds) {
  TrainOptions options = options_of(GetParam(), "barabasi-albert:4", 500);
  const std::vector<std::uint16_t> before = partition_for(Experiment(options), 3).owner;
  options.rounds *= 2;
  EXPECT_EQ(partition_for(Experiment(options), 3).owner, before);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, SplitOf, testing::Values("dpsgd", "gossip"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace shoal
