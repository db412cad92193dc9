#include "bench/operation_times.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace shoal::bench {
namespace {

TEST(OperationTimes, GivesQuantilesToSixPercent) {
  OperationTimes times;
  for (std::uint64_t us = 1; us <= 1000; ++us) times.add(us * 1000);
  EXPECT_EQ(times.count(), 1000U);
  EXPECT_NEAR(times.quantile_us(0.50), 500, 500 * 0.06);
  EXPECT_NEAR(times.quantile_us(0.99), 990, 990 * 0.06);
}

TEST(OperationTimes, TakesAnyTime) {
  OperationTimes times;
  times.add(0);
  times.add(~std::uint64_t{0});
  EXPECT_EQ(times.count(), 2U);
  EXPECT_LT(times.quantile_us(0.5), 0.01);
  EXPECT_GT(times.quantile_us(1.0), 1e15);
}

TEST(OperationTimes, SurvivesTheWayThroughJson) {
  OperationTimes times;
  std::uint64_t time = 1;
  for (int i = 0; i < 50; ++i, time += time / 3 + 7) times.add(time);
  const OperationTimes copy = OperationTimes::from_json(times.to_json());
  EXPECT_EQ(copy.to_json(), times.to_json());
  EXPECT_EQ(copy.text(), times.text());
}

TEST(OperationTimes, OfNothingIsNothing) {
  EXPECT_EQ(OperationTimes().quantile_us(0.99), 0);
  EXPECT_EQ(OperationTimes().count(), 0U);
}

}  // namespace
}  // namespace shoal::bench
