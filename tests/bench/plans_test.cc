#include "bench/plans.h"

#include <gtest/gtest.h>

#include <set>

#include "bench/layouts.h"

namespace shoal::bench {
namespace {

TEST(Plans, GiveEveryNodeDistinctNeighboursAndNeverItself) {
  for (const std::size_t degree : {0U, 1U, 8U, 30U}) {
    Plans plans(31, degree, 7);
    const auto plan = plans.plan(Verb::kGossipRound, 0);
    ASSERT_EQ(plan->size(), 31U);
    for (std::size_t step = 0; step < plan->size(); ++step) {
      const auto reads = plan->reads(step);
      const std::set<NodeId> distinct(reads.begin(), reads.end());
      EXPECT_EQ(distinct.size(), degree);
      EXPECT_FALSE(distinct.contains(plan->node(step)));
      EXPECT_TRUE(distinct.empty() || *distinct.rbegin() < 31U);
    }
  }
}

TEST(Plans, KeepTheGraphOverRoundsAndDrawRandomReadsAnew) {
  Plans plans(50, 4, 7);
  EXPECT_EQ(plans.plan(Verb::kGossipRound, 1), plans.plan(Verb::kGossipRound, 2));
  const auto one = plans.plan(Verb::kRandomRead, 1);
  const auto two = plans.plan(Verb::kRandomRead, 2);
  bool differ = false;
  for (std::size_t step = 0; step < one->size(); ++step) differ |= one->node(step) != two->node(step);
  EXPECT_TRUE(differ);
}

TEST(Plans, CountEveryUseOfAPayloadAsLogicalBytes) {
  const StateLayout layout = parse_layout("400:800");
  Plans plans(10, 3, 1);
  EXPECT_EQ(logical_bytes(*plans.plan(Verb::kFill, 0), layout), 10U * 1200);
  EXPECT_EQ(logical_bytes(*plans.plan(Verb::kStream, 0), layout), 10U * 2400);
  EXPECT_EQ(logical_bytes(*plans.plan(Verb::kGossipRound, 0), layout), 10U * (2400 + 3 * 400));
  EXPECT_EQ(logical_bytes(*plans.plan(Verb::kRandomRead, 0), layout), 10U * 400);
}

}  // namespace
}  // namespace shoal::bench
