#include "trainer/fixed_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

namespace shoal {
namespace {

std::vector<double> terms_of_all_sizes() {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> fraction(-1, 1);
  std::uniform_int_distribution<int> exponent(-30, 40);
  std::vector<double> terms(2000);
  for (double& term : terms) term = std::ldexp(fraction(random), exponent(random));
  return terms;
}

TEST(FixedSum, GivesTheSameDigitsInAnyOrderAndGrouping) {
  std::vector<double> terms = terms_of_all_sizes();
  FixedSum forward;
  for (const double term : terms) forward.add(term);
  std::shuffle(terms.begin(), terms.end(), std::mt19937(2));
  FixedSum parts[3];
  for (std::size_t i = 0; i < terms.size(); ++i) parts[i % 3].add(terms[i]);
  FixedSum joined;
  for (const FixedSum& part : parts) joined.add(part);
  EXPECT_EQ(joined.value(), forward.value());

  double plain = 0;
  for (const double term : terms) plain += term;
  EXPECT_NEAR(forward.value(), plain, 1e-9 + 1e-12 * 0x1p40 * 2000);
}

TEST(FixedSum, ForgetsWhatIsRemovedEntirely) {
  FixedSum sum;
  sum.add(0.1);
  const double before = sum.value();
  for (const double term : terms_of_all_sizes()) sum.add(term);
  std::vector<double> terms = terms_of_all_sizes();
  std::reverse(terms.begin(), terms.end());
  for (const double term : terms) sum.remove(term);
  EXPECT_EQ(sum.value(), before);
}

TEST(FixedSum, IsExactToTheLastDigitItKeeps) {
  FixedSum sum;
  for (int i = 0; i < 1000; ++i) sum.add(0x1p-40);
  EXPECT_EQ(sum.value(), 1000 * 0x1p-40);
  sum.add(0x1p59);
  sum.remove(0x1p59);
  EXPECT_EQ(sum.value(), 1000 * 0x1p-40);
}

// As ranks do it: each its own terms, and the limbs of all added up as unsigned numbers are.
TEST(FixedSum, IsTheSameWhenItsLimbsAreAddedUpOverRanks) {
  const std::vector<double> terms = terms_of_all_sizes();
  for (const std::size_t ranks : {1U, 2U, 7U, 1000U}) {
    FixedSum whole;
    std::vector<FixedSum> parts(ranks);
    for (std::size_t i = 0; i < terms.size(); ++i) {
      // Signs that leave some ranks far below zero, and others above.
      const double term = i % ranks % 2 == 0 ? -std::abs(terms[i]) : terms[i];
      whole.add(term);
      parts[i % ranks].add(term);
    }
    std::array<std::int64_t, FixedSum::kLimbs> sums{};
    for (const FixedSum& part : parts) {
      const auto limbs = part.limbs();
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += limbs[k];
    }
    const FixedSum joined = FixedSum::from_limbs(sums);
    EXPECT_EQ(joined.value(), whole.value()) << ranks;
    EXPECT_EQ(joined.limbs(), whole.limbs()) << ranks;
  }
}

TEST(FixedSum, KeepsInItsLimbsThatItIsNotANumber) {
  FixedSum good;
  good.add(-3);
  FixedSum bad;
  bad.add(std::numeric_limits<double>::infinity());
  std::array<std::int64_t, FixedSum::kLimbs> sums = good.limbs();
  EXPECT_EQ(FixedSum::from_limbs(sums).value(), -3);
  for (int rank = 0; rank < 2; ++rank) {
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += bad.limbs()[k];
    EXPECT_TRUE(std::isnan(FixedSum::from_limbs(sums).value()));
  }
}

TEST(FixedSum, IsNotANumberOnceATermWasNone) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(), 0x1p60, -0x1p61}) {
    FixedSum sum;
    sum.add(bad);
    sum.remove(bad);
    sum.add(1);
    EXPECT_TRUE(std::isnan(sum.value())) << bad;
    FixedSum other;
    other.add(1);
    other.add(sum);
    EXPECT_TRUE(std::isnan(other.value())) << bad;
  }
}

}  // namespace
}  // namespace shoal
