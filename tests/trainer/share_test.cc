// A rank's share of a round against the definition, written down the long way.
#include "trainer/share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "trainer/algorithm.h"
#include "trainer/train_options.h"

namespace shoal {
namespace {

struct Step {
  StepKind kind;
  NodeId node;
  std::vector<NodeId> reads;
  int local_steps;  // -1: the plan does not say

  bool operator==(const Step&) const = default;
};

std::vector<Step> steps_of(const RoundPlan& plan) {
  std::vector<Step> steps;
  for (std::size_t k = 0; k < plan.accesses->size(); ++k) {
    const auto reads = plan.accesses->reads(k);
    steps.push_back({plan.accesses->kind(k),
                     plan.accesses->node(k),
                     {reads.begin(), reads.end()},
                     plan.local_steps.empty() ? -1 : plan.local_steps[k]});
  }
  return steps;
}

// What a rank's store is to do, for any split, however bad.
class Expected {
 public:
  Expected(const Graph& graph, const std::vector<std::uint16_t>& owner, unsigned rank) : owner_(owner), rank_(rank) {
    std::map<unsigned, NodeId> count;
    for (NodeId node = 0; node < graph.nodes(); ++node) {
      at_owner_[node] = count[owner[node]]++;
      version_[node] = 1;
      if (owner[node] != rank) continue;
      own_.push_back(node);
      for (const NodeId neighbour : graph.neighbours(node)) {
        if (owner[neighbour] != rank) guests_.insert(neighbour);
      }
    }
  }

  void expect_setup(const Share& share) const {
    EXPECT_EQ(share.own(), own_);
    EXPECT_EQ(share.nodes(), own_.size());
    ASSERT_EQ(share.guests(), guests_.size());
    for (NodeId local = 0; local < own_.size(); ++local) {
      EXPECT_EQ(share.global(local), own_[local]);
      EXPECT_EQ(share.local(own_[local]), local);
      EXPECT_TRUE(share.owns(own_[local]));
    }
    const auto places = share.guest_places();
    std::size_t k = 0;
    for (const NodeId guest : guests_) {
      EXPECT_FALSE(share.owns(guest));
      EXPECT_EQ(places[k].owner, owner_[guest]);
      EXPECT_EQ(places[k++].node, at_owner_.at(guest));
    }
  }

  void expect_round(const RoundPlan& round, const LocalPlan& local) {
    std::vector<Step> steps;
    std::set<NodeId> held;
    const std::vector<Step> all = steps_of(round);
    for (const Step& step : all) {
      if (owner_[step.node] == rank_) {
        steps.push_back({step.kind, at_owner_.at(step.node), {}, step.local_steps});
        for (const NodeId node : step.reads) steps.back().reads.push_back(number(node));
        continue;
      }
      for (const NodeId node : step.reads) {
        if (owner_[node] == rank_) held.insert(at_owner_.at(node));
      }
    }
    EXPECT_EQ(steps_of(local.plan), steps);
    EXPECT_THAT(local.plan.accesses->held(), testing::UnorderedElementsAreArray(held));
    std::vector<Version> versions;
    for (const NodeId guest : guests_) versions.push_back(version_.at(guest));
    EXPECT_EQ(local.guest_versions, versions);
    for (const Step& step : all) version_[step.node] += writes(step.kind) ? 1 : 0;
  }

 private:
  NodeId number(NodeId global) const {
    if (owner_[global] == rank_) return at_owner_.at(global);
    const auto before = std::distance(guests_.begin(), guests_.find(global));
    return static_cast<NodeId>(own_.size()) + static_cast<NodeId>(before);
  }

  const std::vector<std::uint16_t> owner_;
  const unsigned rank_;
  std::vector<NodeId> own_;
  std::set<NodeId> guests_;
  std::map<NodeId, NodeId> at_owner_;
  std::map<NodeId, Version> version_;
};

std::vector<std::uint16_t> random_owners(NodeId nodes, unsigned ranks, std::mt19937& random) {
  std::vector<std::uint16_t> owner(nodes);
  for (auto& rank : owner) rank = static_cast<std::uint16_t>(random() % ranks);
  return owner;
}

// Some nodes act, in any order, in any way, and read some neighbours.
RoundPlan random_plan(const Graph& graph, std::mt19937& random) {
  std::vector<NodeId> order(graph.nodes());
  for (NodeId node = 0; node < graph.nodes(); ++node) order[node] = node;
  std::shuffle(order.begin(), order.end(), random);
  auto accesses = std::make_shared<AccessPlan>();
  RoundPlan plan;
  const StepKind kinds[] = {StepKind::kUpdate, StepKind::kRead, StepKind::kInspect};
  for (const NodeId node : order) {
    if (random() % 3 == 0) continue;
    std::vector<NodeId> reads;
    for (const NodeId neighbour : graph.neighbours(node)) {
      if (random() % 2 == 0) reads.push_back(neighbour);
    }
    std::shuffle(reads.begin(), reads.end(), random);
    accesses->add(kinds[random() % 3], node, reads);
    plan.local_steps.push_back(static_cast<std::uint16_t>(random() % 4));
  }
  plan.accesses = std::move(accesses);
  return plan;
}

const std::vector<std::string> kGraphs = {"erdos-renyi:0.15", "barabasi-albert:2", "star", "complete", "ring"};

TEST(Share, IsWhatTheDefinitionSaysForRandomPlans) {
  std::mt19937 random(1);
  for (const std::string& name : kGraphs) {
    for (const unsigned ranks : {2U, 3U, 7U}) {
      SCOPED_TRACE(testing::Message() << name << " on " << ranks);
      const Graph graph = make_graph(name, 30, 2).graph;
      const auto owner = random_owners(graph.nodes(), ranks, random);
      std::vector<RoundPlan> rounds;
      for (int k = 0; k < 6; ++k) rounds.push_back(random_plan(graph, random));
      rounds.push_back(rounds.back());  // the very same again
      for (unsigned rank = 0; rank < ranks; ++rank) {
        Share share(graph, {owner, ranks, {}}, rank);
        Expected expected(graph, owner, rank);
        expected.expect_setup(share);
        for (const RoundPlan& round : rounds) expected.expect_round(round, share.localize(round));
      }
    }
  }
}

TEST(Share, IsWhatTheDefinitionSaysForAlgorithms) {
  std::mt19937 random(2);
  for (const std::string& algorithm : algorithm_names()) {
    SCOPED_TRACE(algorithm);
    TrainOptions options;
    options.nodes = 40;
    options.algorithm = algorithm;
    options.algorithm_options["gossip-every"] = "2-4";
    const Graph graph = make_graph("watts-strogatz:4:0.3", options.nodes, 3).graph;
    const std::vector<NodeId> order = locality_order(graph);
    const Team team;
    const auto owner = random_owners(graph.nodes(), 4, random);
    for (unsigned rank = 0; rank < 4; ++rank) {
      const auto made = make_algorithm({options, graph, order, team});
      if (made->records() < options.nodes) continue;  // one record for all is not shared out
      Share share(graph, {owner, 4, {}}, rank);
      Expected expected(graph, owner, rank);
      for (std::uint64_t round = 0; round < 12; ++round) {
        const RoundPlan plan = made->plan(round);
        expected.expect_round(plan, share.localize(plan));
      }
    }
  }
}

TEST(Share, OfAllRanksTogetherIsTheRound) {
  std::mt19937 random(3);
  const Graph graph = make_graph("random-regular:4", 30, 1).graph;
  const auto owner = random_owners(graph.nodes(), 3, random);
  const RoundPlan round = random_plan(graph, random);
  std::multiset<NodeId> acting;
  std::uint64_t reads = 0;
  for (unsigned rank = 0; rank < 3; ++rank) {
    const Share share(graph, {owner, 3, {}}, rank);
    for (const Step& step : steps_of(share.translate(round))) acting.insert(share.global(step.node));
    reads += share.reads();
    const auto of_ranks = share.nodes_of_ranks();
    ASSERT_EQ(of_ranks.size(), 3U);
    EXPECT_EQ(of_ranks[rank], share.nodes());
  }
  std::multiset<NodeId> expected;
  for (const Step& step : steps_of(round)) expected.insert(step.node);
  EXPECT_EQ(acting, expected);
  EXPECT_EQ(reads, 2 * graph.edges());
}

TEST(Share, OfOneRankIsTheRoundItself) {
  std::mt19937 random(4);
  const Graph graph = make_graph("ring", 9, 1).graph;
  Share share(graph.nodes());
  const RoundPlan round = random_plan(graph, random);
  const LocalPlan local = share.localize(round);
  EXPECT_TRUE(share.whole());
  EXPECT_EQ(local.plan.accesses, round.accesses);
  EXPECT_EQ(local.plan.local_steps, round.local_steps);
  EXPECT_TRUE(local.guest_versions.empty());
  EXPECT_EQ(share.guests(), 0U);
  EXPECT_TRUE(share.owns(8));
  EXPECT_EQ(share.global(8), 8U);
}

}  // namespace
}  // namespace shoal
