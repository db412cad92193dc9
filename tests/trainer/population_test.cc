#include "trainer/population.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <thread>

#include "trainer/model.h"

namespace shoal {
namespace {

// Two tensors, the first longer than a chunk of the sums, the second of a size that is no multiple of anything.
class TwoTensors : public Model {
 public:
  TwoTensors()
      : Model({{"large", DType::kFloat32, {5000}, Part::kPublic}, {"small", DType::kFloat32, {37}, Part::kPublic}},
              {}) {}
  void initialize(std::uint64_t, NodeId, float*, std::byte*) const override {}
  std::unique_ptr<Learner> make_learner() const override { return nullptr; }
};

class PopulationTest : public testing::Test {
 protected:
  PopulationTest() : layout_(TwoTensors(), {}, {}, 0), reference_(random_vector(99)) {}

  // Gaps are zeros, as everywhere.
  std::vector<float> random_vector(unsigned seed, float spread = 1) const {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, spread);
    std::vector<float> values(layout_.flat_size(), 0);
    for (const TensorPlace& place : layout_.parameters()) {
      for (std::uint64_t i = 0; i < place.bytes / sizeof(float); ++i)
        values[place.offset / sizeof(float) + i] = normal(random);
    }
    return values;
  }

  std::vector<std::vector<float>> random_models(std::size_t count) const {
    std::vector<std::vector<float>> models;
    for (unsigned i = 0; i < count; ++i) models.push_back(random_vector(i, i % 3 == 0 ? 5.0F : 0.1F));
    return models;
  }

  static void expect_same(const Population& a, const Population& b) {
    EXPECT_EQ(a.nodes(), b.nodes());
    EXPECT_EQ(a.mean(), b.mean());
    const Spread one = a.spread();
    const Spread two = b.spread();
    EXPECT_EQ(one.consensus_distance, two.consensus_distance);
    for (std::size_t i = 0; i < one.layers.size(); ++i) {
      EXPECT_EQ(one.layers[i].distance, two.layers[i].distance);
      EXPECT_EQ(one.layers[i].norm_mean, two.layers[i].norm_mean);
      EXPECT_EQ(one.layers[i].norm_cv, two.layers[i].norm_cv);
    }
  }

  NodeLayout layout_;
  std::vector<float> reference_;
};

TEST_F(PopulationTest, AgreesWithTheDefinitionOfMeanAndDistance) {
  const auto models = random_models(23);
  Population population(layout_, reference_);
  for (const auto& model : models) population.add(model.data());
  const auto n = static_cast<double>(models.size());

  std::vector<double> mean(layout_.flat_size(), 0);
  for (const auto& model : models) {
    for (std::size_t k = 0; k < mean.size(); ++k) mean[k] += static_cast<double>(model[k]) / n;
  }
  const std::vector<float> summed = population.mean();
  for (std::size_t k = 0; k < mean.size(); ++k) ASSERT_NEAR(summed[k], mean[k], 1e-6);

  const Spread spread = population.spread();
  EXPECT_EQ(spread.nodes, models.size());
  ASSERT_EQ(spread.layers.size(), 2U);
  double total = 0;
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const TensorPlace& place = layout_.parameters()[layer];
    const std::size_t begin = place.offset / sizeof(float);
    const std::size_t end = begin + place.bytes / sizeof(float);
    double squared = 0;
    double norms = 0;
    double squared_norms = 0;
    for (const auto& model : models) {
      double squared_norm = 0;
      for (std::size_t k = begin; k < end; ++k) {
        squared += std::pow(static_cast<double>(model[k]) - mean[k], 2) / n;
        squared_norm += std::pow(static_cast<double>(model[k]), 2);
      }
      norms += std::sqrt(squared_norm) / n;
      squared_norms += squared_norm / n;
    }
    total += squared;
    EXPECT_EQ(spread.layers[layer].name, place.spec.name);
    EXPECT_NEAR(spread.layers[layer].distance, std::sqrt(squared), 1e-8 * std::sqrt(squared));
    EXPECT_NEAR(spread.layers[layer].norm_mean, norms, 1e-8 * norms);
    EXPECT_NEAR(spread.layers[layer].norm_cv, std::sqrt(squared_norms - norms * norms) / norms, 1e-6);
  }
  EXPECT_NEAR(spread.consensus_distance, std::sqrt(total), 1e-8 * std::sqrt(total));
}

TEST_F(PopulationTest, IsTheSameToTheBitInAnyOrderAndFromSeveralThreads) {
  const auto models = random_models(24);
  Population in_order(layout_, reference_);
  for (const auto& model : models) in_order.add(model.data());

  Population by_threads(layout_, reference_);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = models.size(); i-- > 0;) {
        if (i % 4 == t) by_threads.add(models[i].data());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_same(by_threads, in_order);
}

TEST_F(PopulationTest, ForgetsAnOldModelEntirely) {
  const auto models = random_models(12);
  Population fresh(layout_, reference_);
  for (std::size_t i = 0; i < 6; ++i) fresh.add(models[i].data());

  Population replaced(layout_, reference_);
  for (std::size_t i = 6; i < 12; ++i) replaced.add(models[i].data());
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (const std::size_t i : {2 * t, 2 * t + 1}) {
        replaced.remove(models[6 + i].data());
        replaced.add(models[5 - i].data());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_same(replaced, fresh);
}

TEST_F(PopulationTest, IsTheSameWhenRanksAddUpWhatTheyPacked) {
  const auto models = random_models(24);
  Population whole(layout_, reference_);
  std::vector<std::unique_ptr<Population>> ranks;
  for (int rank = 0; rank < 5; ++rank) ranks.push_back(std::make_unique<Population>(layout_, reference_));
  for (std::size_t i = 0; i < models.size(); ++i) {
    whole.add(models[i].data());
    ranks[i % 4]->add(models[i].data());  // the fifth has none
  }
  std::vector<std::int64_t> sums = ranks[0]->pack();
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const std::vector<std::int64_t> packed = ranks[rank]->pack();
    ASSERT_EQ(packed.size(), sums.size());
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += packed[k];
  }
  Population joined(layout_, reference_);
  joined.add(models[3].data());  // goes
  joined.unpack(sums);
  expect_same(joined, whole);
  EXPECT_EQ(joined.pack(), whole.pack());
}

TEST_F(PopulationTest, KeepsInWhatItPacksThatAModelHasRunAway) {
  Population population(layout_, reference_);
  std::vector<float> model = reference_;
  model[0] += 1e30F;
  population.add(model.data());
  Population other(layout_, reference_);
  other.unpack(population.pack());
  EXPECT_EQ(other.nodes(), 1U);
  EXPECT_TRUE(std::isnan(other.spread().consensus_distance));
}

TEST_F(PopulationTest, EqualModelsHaveNoDistance) {
  Population population(layout_, reference_);
  for (int i = 0; i < 1000; ++i) population.add(reference_.data());
  EXPECT_EQ(population.spread().consensus_distance, 0);
  EXPECT_EQ(population.mean(), reference_);

  // And where the reference is another one, hardly any.
  const std::vector<float> other = random_vector(7);
  population.clear();
  for (int i = 0; i < 1000; ++i) population.add(other.data());
  EXPECT_LT(population.spread().consensus_distance, 1e-3);
  for (std::size_t k = 0; k < other.size(); ++k) ASSERT_NEAR(population.mean()[0], other[0], 1e-6);
}

// The sums' range is an element's, not a vector's.
TEST_F(PopulationTest, KnowsTheDistanceOfModelsThatAreFarInEveryElement) {
  Population population(layout_, reference_);
  std::vector<float> model = reference_;
  for (float& value : model) value += 100;
  population.add(reference_.data());
  population.add(model.data());
  EXPECT_NEAR(population.spread().consensus_distance, 50 * std::sqrt(static_cast<double>(model.size())), 0.1);
}

TEST_F(PopulationTest, SaysThatItDoesNotKnowWhenAModelHasRunAway) {
  for (const float bad :
       {600.0F, -1e30F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    SCOPED_TRACE(bad);
    Population population(layout_, reference_);
    std::vector<float> model = reference_;
    population.add(model.data());
    model[4500] += bad;
    population.add(model.data());
    EXPECT_TRUE(std::isnan(population.spread().consensus_distance));
    for (const LayerSpread& layer : population.spread().layers) EXPECT_TRUE(std::isnan(layer.distance)) << layer.name;
    EXPECT_TRUE(std::isnan(population.mean()[0]));
    population.clear();
    population.add(reference_.data());
    EXPECT_EQ(population.spread().consensus_distance, 0);
  }
}

}  // namespace
}  // namespace shoal
