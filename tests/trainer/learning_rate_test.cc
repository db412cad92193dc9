#include <gtest/gtest.h>

#include "store/error.h"
#include "trainer/optimizer.h"

namespace shoal {
namespace {

TEST(LearningRate, ConstantIsConstant) {
  const LearningRate rate("constant", 0.05, 0, 10);
  for (std::uint64_t round = 0; round < 12; ++round) EXPECT_DOUBLE_EQ(rate.at(round), 0.05);
}

TEST(LearningRate, RisesInEqualStepsToTheBaseDuringTheWarmUp) {
  const LearningRate rate("constant", 1, 4, 10);
  EXPECT_DOUBLE_EQ(rate.at(0), 0.25);
  EXPECT_DOUBLE_EQ(rate.at(1), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(3), 1);
  EXPECT_DOUBLE_EQ(rate.at(4), 1);
}

TEST(LearningRate, StepMultipliesAfterEveryPeriodThatFollowsTheWarmUp) {
  const LearningRate rate("step:3:0.1", 2, 1, 100);
  EXPECT_DOUBLE_EQ(rate.at(1), 2);
  EXPECT_DOUBLE_EQ(rate.at(3), 2);
  EXPECT_DOUBLE_EQ(rate.at(4), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(7), 0.02);
}

TEST(LearningRate, CosineFallsFromTheBaseToZeroInTheLastRound) {
  const LearningRate rate("cosine", 1, 2, 11);
  EXPECT_DOUBLE_EQ(rate.at(2), 1);
  EXPECT_DOUBLE_EQ(rate.at(6), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(10), 0);
  for (std::uint64_t round = 3; round < 11; ++round) EXPECT_LT(rate.at(round), rate.at(round - 1));
  EXPECT_DOUBLE_EQ(LearningRate("cosine", 1, 2, 3).at(2), 1);
}

TEST(LearningRate, RefusesWhatIsNoSchedule) {
  for (const char* text : {"", "linear", "step", "step:", "step:3", "step:0:0.5", "step:3:x", "step:3:0.5:1",
                           "step:3:-1", "cosine:3", "constant "}) {
    try {
      const LearningRate rate(text, 1, 0, 10);
      ADD_FAILURE() << "accepted '" << text << "' as " << rate.at(0);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
      EXPECT_NE(std::string(error.what()).find("constant, step:EVERY:FACTOR"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace shoal
