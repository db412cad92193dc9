#include "store/use_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "store/error.h"

namespace shoal {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

// Some nodes act, some are inspected, some steps only read; reads are random and may repeat or name the node itself.
std::shared_ptr<const AccessPlan> random_plan(NodeId nodes, std::mt19937& random) {
  std::vector<NodeId> order(nodes);
  for (NodeId node = 0; node < nodes; ++node) order[node] = node;
  std::shuffle(order.begin(), order.end(), random);
  order.resize(random() % (nodes + 1));
  auto plan = std::make_shared<AccessPlan>();
  const auto add = [&](StepKind kind, NodeId node) {
    std::vector<NodeId> reads(random() % 5);
    for (NodeId& read : reads) read = static_cast<NodeId>(random() % nodes);
    if (random() % 4 == 0) reads.push_back(node == kNoNode ? 0 : node);
    plan->add(kind, node, reads);
  };
  for (const NodeId node : order) {
    if (random() % 4 == 0) add(StepKind::kRead, kNoNode);
    const StepKind kinds[] = {StepKind::kUpdate, StepKind::kUpdate, StepKind::kInspect, StepKind::kCreate};
    add(kinds[random() % 4], node);
  }
  return plan;
}

bool uses_public(const AccessPlan& plan, std::uint32_t step, NodeId node) {
  const auto reads = plan.reads(step);
  return (reads_own(plan.kind(step)) && plan.node(step) == node) ||
         std::find(reads.begin(), reads.end(), node) != reads.end();
}

// Lives through the round with a list of who has a new version and who still has the old one, and of the guests that
// are there.
std::uint64_t extra_versions_by_simulation(const AccessPlan& plan, NodeId nodes, NodeId guests = 0) {
  std::vector<int> versions(nodes, 1);
  std::vector<bool> there(guests, false);
  const auto held = plan.held();
  std::uint64_t most = 0;
  for (std::uint32_t step = 0; step < plan.size(); ++step) {
    if (writes(plan.kind(step))) ++versions[plan.node(step)];
    for (const NodeId node : plan.reads(step)) {
      if (node >= nodes) there[node - nodes] = true;
    }
    auto extra = static_cast<std::uint64_t>(std::count(there.begin(), there.end(), true));
    for (const int count : versions) extra += static_cast<std::uint64_t>(count - 1);
    most = std::max(most, extra);
    for (NodeId node = 0; node < nodes + guests; ++node) {
      bool used_later = std::find(held.begin(), held.end(), node) != held.end();
      for (std::uint32_t later = step + 1; later < plan.size(); ++later) used_later |= uses_public(plan, later, node);
      if (used_later) continue;
      if (node >= nodes) {
        there[node - nodes] = false;
      } else if (versions[node] == 2) {
        --versions[node];
      }
    }
  }
  return most;
}

TEST(UseIndex, ListsEachStepThatUsesAPublicRecordOnceAndInOrder) {
  std::mt19937 random(1);
  for (int repeat = 0; repeat < 300; ++repeat) {
    const auto nodes = static_cast<NodeId>(1 + random() % 12);
    const auto plan = random_plan(nodes, random);
    const UseIndex uses(plan, nodes);
    EXPECT_EQ(uses.steps(), plan->size());
    for (NodeId node = 0; node < nodes; ++node) {
      std::vector<std::uint32_t> expected;
      for (std::uint32_t step = 0; step < plan->size(); ++step) {
        if (uses_public(*plan, step, node)) expected.push_back(step);
      }
      ASSERT_THAT(uses.uses(node), ElementsAreArray(expected)) << "node " << node;
    }
  }
}

TEST(UseIndex, KnowsTheStepOfEachPrivateRecordAndWhoActs) {
  std::mt19937 random(2);
  for (int repeat = 0; repeat < 300; ++repeat) {
    const auto nodes = static_cast<NodeId>(1 + random() % 12);
    const auto plan = random_plan(nodes, random);
    const UseIndex uses(plan, nodes);
    std::vector<std::uint32_t> private_step(nodes, kNever);
    std::vector<bool> acts(nodes, false);
    for (std::uint32_t step = 0; step < plan->size(); ++step) {
      if (plan->kind(step) == StepKind::kRead) continue;
      private_step[plan->node(step)] = step;
      acts[plan->node(step)] = plan->kind(step) != StepKind::kInspect;
    }
    for (NodeId node = 0; node < nodes; ++node) {
      ASSERT_EQ(uses.private_step(node), private_step[node]);
      ASSERT_EQ(uses.acts(node), acts[node]);
    }
  }
}

TEST(UseIndex, CountsAStepOnceThatNamesANodeTwiceOrItself) {
  auto plan = std::make_shared<AccessPlan>();
  plan->add(StepKind::kUpdate, 0, std::vector<NodeId>{1, 0, 1});
  plan->add(StepKind::kRead, kNoNode, std::vector<NodeId>{1, 1});
  plan->add(StepKind::kCreate, 1, std::vector<NodeId>{2});
  const UseIndex uses(plan, 3);
  EXPECT_THAT(uses.uses(0), ElementsAre(0u));
  EXPECT_THAT(uses.uses(1), ElementsAre(0u, 1u));
  EXPECT_THAT(uses.uses(2), ElementsAre(2u));
}

TEST(UseIndex, CountsTheOldVersionsThatAreStillNeededAsASimulationDoes) {
  std::mt19937 random(3);
  std::uint64_t most = 0;
  for (int repeat = 0; repeat < 300; ++repeat) {
    const auto nodes = static_cast<NodeId>(1 + random() % 12);
    const auto plan = random_plan(nodes, random);
    const std::uint64_t expected = extra_versions_by_simulation(*plan, nodes);
    ASSERT_EQ(UseIndex(plan, nodes).extra_versions(), expected);
    most = std::max(most, expected);
  }
  EXPECT_GT(most, 4u) << "the plans were too tame to show anything";
}

TEST(UseIndex, CountsGuestsWhileTheyAreUsedAndHeldVersionsToTheEndAsASimulationDoes) {
  std::mt19937 random(4);
  std::uint64_t differ = 0;
  for (int repeat = 0; repeat < 300; ++repeat) {
    const auto nodes = static_cast<NodeId>(1 + random() % 12);
    const auto guests = static_cast<NodeId>(random() % 8);
    const auto local = random_plan(nodes, random);
    auto plan = std::make_shared<AccessPlan>();
    for (std::size_t step = 0; step < local->size(); ++step) {
      std::vector<NodeId> reads(local->reads(step).begin(), local->reads(step).end());
      for (NodeId& read : reads) {
        if (guests > 0 && random() % 2 == 0) read = nodes + static_cast<NodeId>(random() % guests);
      }
      plan->add(local->kind(step), local->node(step), reads);
    }
    for (NodeId node = 0; node < nodes; ++node) {
      if (random() % 3 == 0) plan->hold(node);
    }
    const std::uint64_t expected = extra_versions_by_simulation(*plan, nodes, guests);
    ASSERT_EQ(UseIndex(plan, nodes, guests).extra_versions(), expected);
    differ += expected != extra_versions_by_simulation(*local, nodes) ? 1 : 0;
  }
  EXPECT_GT(differ, 100u);
}

TEST(UseIndex, RefusesToHoldAGuestAndAGuestThatActs) {
  auto holding = std::make_shared<AccessPlan>();
  holding->hold(3);
  EXPECT_THAT([&] { UseIndex uses(holding, 3, 2); }, ThrowsMessage<Error>(HasSubstr("holds node 3")));
  auto acting = std::make_shared<AccessPlan>();
  acting->add(StepKind::kUpdate, 3);
  EXPECT_THAT([&] { UseIndex uses(acting, 3, 2); }, ThrowsMessage<Error>(HasSubstr("names node 3")));
}

TEST(UseIndex, NeedsOneExtraVersionForAStreamAndOneForEachNodeWhenTheLastReadsAll) {
  constexpr NodeId kNodes = 10;
  auto stream = std::make_shared<AccessPlan>();
  auto last_reads_all = std::make_shared<AccessPlan>();
  std::vector<NodeId> all;
  for (NodeId node = 0; node < kNodes; ++node) {
    all.push_back(node);
    stream->add(StepKind::kUpdate, node);
    last_reads_all->add(StepKind::kUpdate, node, node + 1 == kNodes ? all : std::vector<NodeId>{});
  }
  EXPECT_EQ(UseIndex(stream, kNodes).extra_versions(), 1u);
  EXPECT_EQ(UseIndex(last_reads_all, kNodes).extra_versions(), kNodes);
}

TEST(UseIndex, TakesARoundWithoutSteps) {
  const UseIndex uses(std::make_shared<AccessPlan>(), 2);
  EXPECT_EQ(uses.steps(), 0u);
  EXPECT_THAT(uses.uses(1), IsEmpty());
  EXPECT_EQ(uses.extra_versions(), 0u);
}

TEST(UseIndex, RefusesANodeThatTheStoreDoesNotHave) {
  const auto indexing = [](StepKind kind, NodeId node, std::vector<NodeId> reads) {
    auto plan = std::make_shared<AccessPlan>();
    plan->add(StepKind::kUpdate, 0);
    plan->add(kind, node, reads);
    return [plan] { UseIndex uses(plan, 5); };
  };
  const auto refusal = ThrowsMessage<Error>(AllOf(HasSubstr("step 1"), HasSubstr("node 5"), HasSubstr("has 5 nodes")));
  EXPECT_THAT(indexing(StepKind::kUpdate, 5, {}), refusal);
  EXPECT_THAT(indexing(StepKind::kCreate, 5, {}), refusal);
  EXPECT_THAT(indexing(StepKind::kUpdate, 1, {4, 5}), refusal);
  EXPECT_THAT(indexing(StepKind::kRead, kNoNode, {5}), refusal);
  EXPECT_NO_THROW(indexing(StepKind::kUpdate, 4, {4})());
}

TEST(UseIndex, RefusesANodeThatActsTwice) {
  for (const StepKind first : {StepKind::kUpdate, StepKind::kCreate, StepKind::kInspect}) {
    auto plan = std::make_shared<AccessPlan>();
    plan->add(first, 3);
    plan->add(StepKind::kUpdate, 1);
    plan->add(StepKind::kUpdate, 3);
    EXPECT_THAT([&] { UseIndex uses(plan, 5); },
                ThrowsMessage<Error>(AllOf(HasSubstr("node 3"), HasSubstr("steps 0 and 2"))));
  }
}

}  // namespace
}  // namespace shoal
