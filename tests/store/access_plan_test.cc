#include "store/access_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace shoal {
namespace {

using testing::ElementsAreArray;

struct Step {
  StepKind kind;
  NodeId node;
  std::vector<NodeId> reads;
};

std::vector<Step> random_steps(std::mt19937& random) {
  std::vector<Step> steps(random() % 20);
  for (Step& step : steps) {
    step.kind = static_cast<StepKind>(random() % 4);
    step.node = static_cast<NodeId>(random() % 100);
    step.reads.resize(random() % 6);
    for (NodeId& node : step.reads) node = static_cast<NodeId>(random() % 100);
  }
  return steps;
}

TEST(AccessPlan, GivesBackItsStepsInOrderWithTheirReads) {
  std::mt19937 random(1);
  for (int repeat = 0; repeat < 100; ++repeat) {
    const std::vector<Step> steps = random_steps(random);
    AccessPlan plan;
    for (const Step& step : steps) plan.add(step.kind, step.node, step.reads);

    ASSERT_EQ(plan.size(), steps.size());
    std::size_t total = 0;
    std::size_t most = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      EXPECT_EQ(plan.kind(i), steps[i].kind);
      EXPECT_EQ(plan.node(i), steps[i].node);
      EXPECT_THAT(plan.reads(i), ElementsAreArray(steps[i].reads));
      total += steps[i].reads.size();
      most = std::max(most, steps[i].reads.size());
    }
    EXPECT_EQ(plan.total_reads(), total);
    EXPECT_EQ(plan.max_reads(), most);
  }
}

TEST(AccessPlan, TakesTheMemoryThatWasForetoldWhenItIsReserved) {
  const std::vector<NodeId> reads = {1, 2, 3};
  AccessPlan plan;
  plan.reserve(50, 150);
  for (NodeId node = 0; node < 50; ++node) plan.add(StepKind::kUpdate, node, reads);
  EXPECT_EQ(plan.bytes(), AccessPlan::bytes_for(50, 150));
}

TEST(AccessPlan, CountsTheMemoryItTakesWhenItIsNotReserved) {
  const std::vector<NodeId> reads = {1, 2, 3};
  AccessPlan plan;
  for (NodeId node = 0; node < 50; ++node) plan.add(StepKind::kUpdate, node, reads);
  EXPECT_GE(plan.bytes(), AccessPlan::bytes_for(50, 150));
}

TEST(StepKind, SaysWhatAStepTouches) {
  EXPECT_TRUE(!reads_own(StepKind::kCreate) && uses_private(StepKind::kCreate) && writes(StepKind::kCreate));
  EXPECT_TRUE(reads_own(StepKind::kUpdate) && uses_private(StepKind::kUpdate) && writes(StepKind::kUpdate));
  EXPECT_TRUE(reads_own(StepKind::kInspect) && uses_private(StepKind::kInspect) && !writes(StepKind::kInspect));
  EXPECT_TRUE(!reads_own(StepKind::kRead) && !uses_private(StepKind::kRead) && !writes(StepKind::kRead));
}

}  // namespace
}  // namespace shoal
