#include "trainer/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <vector>

namespace shoal {
namespace {

using Block = std::array<std::uint32_t, 4>;

TEST(Philox, GivesTheKnownAnswersOfRandom123) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, DiffersInEveryPartOfItsKey) {
  std::set<std::uint64_t> firsts;
  for (const std::uint64_t seed : {1ULL, 2ULL, 1ULL << 32}) {
    for (const Purpose purpose : {Purpose::kGraph, Purpose::kBatch, Purpose::kTest}) {
      for (const std::uint32_t node : {0U, 1U, 100'000U}) {
        for (const std::uint64_t step : {0ULL, 1ULL, 1ULL << 32, 5ULL << 32}) {
          firsts.insert(RandomStream(seed, purpose, node, step).bits64());
        }
      }
    }
  }
  EXPECT_EQ(firsts.size(), 3u * 3 * 3 * 4);
}

TEST(RandomStream, RepeatsItselfForTheSameKey) {
  RandomStream a(7, Purpose::kTest, 3, 9);
  RandomStream b(7, Purpose::kTest, 3, 9);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(a(), b());
}

TEST(RandomStream, StaysBelowTheBound) {
  RandomStream random(1, Purpose::kTest);
  for (const std::uint32_t bound : {1U, 2U, 3U, 7U, 1000U, 0x80000001U, 0xffffffffU}) {
    for (int i = 0; i < 1000; ++i) ASSERT_LT(random.below(bound), bound);
  }
}

TEST(RandomStream, DrawsEveryNumberBelowTheBoundEquallyOften) {
  RandomStream random(1, Purpose::kTest);
  for (const std::uint32_t bound : {2U, 10U, 37U}) {
    constexpr int kExpected = 10'000;
    std::vector<int> counts(bound);
    for (std::uint32_t i = 0; i < bound * kExpected; ++i) ++counts[random.below(bound)];
    // Five standard deviations of a count.
    for (const int count : counts) EXPECT_NEAR(count, kExpected, 500) << bound;
  }
}

// With a plain modulo or an uncorrected product the numbers below 2^31 would come up twice as often as the others.
TEST(RandomStream, HasNoBiasForLargeBounds) {
  RandomStream random(1, Purpose::kTest);
  constexpr std::uint32_t kBound = 0xC0000000;
  int upper_third = 0;
  for (int i = 0; i < 90'000; ++i) upper_third += random.below(kBound) >= 0x80000000 ? 1 : 0;
  EXPECT_NEAR(upper_third, 30'000, 750);
}

TEST(RandomStream, UniformIsInTheHalfOpenUnitInterval) {
  RandomStream random(2, Purpose::kTest);
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const double u = random.uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    ASSERT_LT(random.uniform_float(), 1.0F);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.005);
}

TEST(RandomStream, NormalHasTheMomentsOfTheNormalDistribution) {
  RandomStream random(3, Purpose::kTest);
  constexpr int kDraws = 200'000;
  std::array<double, 4> moments{};
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.normal();
    double power = 1;
    for (double& moment : moments) moment += (power *= x) / kDraws;
  }
  EXPECT_NEAR(moments[0], 0, 0.012);
  EXPECT_NEAR(moments[1], 1, 0.016);
  EXPECT_NEAR(moments[2], 0, 0.045);
  EXPECT_NEAR(moments[3], 3, 0.12);
}

}  // namespace
}  // namespace shoal
