#include "trainer/exact_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

namespace shoal {
namespace {

constexpr std::size_t kSize = 9001;  // more than two chunks of the sums
constexpr std::size_t kVectors = 24;

// A few elements are as large as gradients never should be.
std::vector<std::vector<float>> some_vectors() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.01F);
  std::vector<std::vector<float>> vectors(kVectors, std::vector<float>(kSize));
  for (auto& vector : vectors) {
    for (float& value : vector) value = normal(random) * (random() % 500 == 0 ? 3e6F : 1.0F);
  }
  return vectors;
}

void expect_same(const ExactSums& a, const ExactSums& b) {
  for (std::size_t k = 0; k < kSize; ++k) ASSERT_EQ(a.sum(k), b.sum(k)) << k;
}

TEST(ExactSums, AreTheSameBitsInAnyOrderAndFromAnyThreads) {
  auto vectors = some_vectors();
  ExactSums forward(kSize, kVectors);
  for (const auto& vector : vectors) ASSERT_TRUE(forward.add(vector));
  std::shuffle(vectors.begin(), vectors.end(), std::mt19937(2));
  ExactSums threaded(kSize, kVectors);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < vectors.size(); i += 3) threaded.add(vectors[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_same(threaded, forward);
  for (std::size_t k = 0; k < kSize; ++k) {
    double plain = 0;
    for (const auto& vector : vectors) plain += static_cast<double>(vector[k]);
    ASSERT_NEAR(forward.sum(k), plain, 1e-11 + 1e-12 * std::abs(plain));
  }
}

// As MPI's reduction does it, for two ranks of which only one has large elements.
TEST(ExactSums, OfTwoRanksAreThoseOfOne) {
  const auto vectors = some_vectors();
  ExactSums together(kSize, kVectors);
  for (const auto& vector : vectors) together.add(vector);
  ExactSums mine(kSize, kVectors);
  ExactSums others(kSize, kVectors);
  const std::vector<float> small(kSize, 0.25F);
  together.add(small);
  mine.add(small);
  for (const auto& vector : vectors) others.add(vector);
  std::vector<std::vector<std::int64_t>> sent;
  others.add_ranks([&](std::span<std::int64_t> numbers) { sent.emplace_back(numbers.begin(), numbers.end()); });
  std::size_t next = 0;
  mine.add_ranks([&](std::span<std::int64_t> numbers) {
    ASSERT_EQ(sent[next].size(), numbers.size());
    for (std::size_t k = 0; k < numbers.size(); ++k) numbers[k] += sent[next][k];
    ++next;
  });
  EXPECT_EQ(next, sent.size());
  expect_same(mine, together);
}

TEST(ExactSums, HoldElementsOfMillionsFromMillionsOfNodes) {
  constexpr std::uint64_t kNodes = 1 << 22;
  for (const float value : {1e-3F, 1023.5F, 1024.0F, -1e8F}) {
    ExactSums sums(1, kNodes);
    const std::vector<float> vector(1, value);
    for (std::uint64_t node = 0; node < kNodes; ++node) sums.add(vector);
    EXPECT_NEAR(sums.sum(0) / kNodes, static_cast<double>(value), 1e-9 + 1e-7 * std::abs(static_cast<double>(value)));
  }
}

TEST(ExactSums, AreNoNumbersOnceAnElementWasTooLargeAndStartAfreshWhenCleared) {
  for (const float bad : {1e13F, -INFINITY, NAN}) {
    ExactSums sums(kSize, 4);
    std::vector<float> vector(kSize, 2000.0F);
    EXPECT_TRUE(sums.add(vector));
    vector[kSize - 1] = bad;
    EXPECT_FALSE(sums.add(vector)) << bad;
    EXPECT_TRUE(sums.exceeded());
    EXPECT_TRUE(std::isnan(sums.sum(0)));
    sums.clear();
    EXPECT_FALSE(sums.exceeded());
    EXPECT_EQ(sums.sum(0), 0);
  }
}

TEST(ExactSums, TakePartsOfTheVector) {
  ExactSums sums(kSize, 2);
  const std::vector<float> part(5000, 1.5F);
  sums.add(part, 4000);
  sums.add(std::span(part).first(1), 4000);
  EXPECT_EQ(sums.sum(3999), 0);
  EXPECT_EQ(sums.sum(4000), 3);
  EXPECT_EQ(sums.sum(8999), 1.5);
  EXPECT_EQ(sums.sum(9000), 0);
}

}  // namespace
}  // namespace shoal
