#include "trainer/quadratic.h"

#include <gtest/gtest.h>

#include <cmath>

#include "store/error.h"

namespace shoal {
namespace {

QuadraticOptions small() { return {.dimension = 7, .zeta = 0.5, .sigma = 0, .seed = 3}; }

std::vector<float> gradient_at(const Model& model, NodeId node, std::uint64_t step, const std::vector<float>& x) {
  std::vector<float> gradient(model.flat_size(), -1);
  model.make_learner()->gradient(node, step, {}, x.data(), nullptr, gradient.data());
  return gradient;
}

TEST(Quadratic, ReadsItsSpecWithDefaultsFromTheRight) {
  EXPECT_EQ(parse_quadratic("quadratic", 1).dimension, QuadraticOptions().dimension);
  EXPECT_EQ(parse_quadratic("quadratic:100", 1).dimension, 100U);
  EXPECT_EQ(parse_quadratic("quadratic:5:0.5", 1).zeta, 0.5);
  const QuadraticOptions all = parse_quadratic("quadratic:5:0.5:2", 9);
  EXPECT_EQ(all.sigma, 2);
  EXPECT_EQ(all.seed, 9U);
}

TEST(Quadratic, RefusesWhatIsNoSpec) {
  for (const char* text : {"quadratic:", "quadratic:0", "quadratic:x", "quadratic:5:-1", "quadratic:5:1:1:1",
                           "quadratic:5:1:-0.5", "quadratic5", "quadratic:99999999999999", "quadratic:5:nan"}) {
    EXPECT_THROW(static_cast<void>(parse_quadratic(text, 1)), Error) << text;
  }
}

TEST(Quadratic, HasOneTensorAndNeedsNoData) {
  const auto model = make_quadratic(small());
  EXPECT_FALSE(model->needs_data());
  EXPECT_EQ(model->flat_size(), 7U);
  EXPECT_EQ(model->parameter_count(), 7U);
  EXPECT_EQ(model->buffers_bytes(), 0U);
  EXPECT_EQ(model->buffers_offset(), 64U);
}

TEST(Quadratic, DrawsCurvaturesAndCentresFromTheirDistributions) {
  const QuadraticOptions options = {.dimension = 20000, .zeta = 2, .sigma = 0, .seed = 1};
  const QuadraticObjective objective = quadratic_objective(options, 5);
  double sum_a = 0;
  double sum_b = 0;
  double sum_b2 = 0;
  for (std::size_t k = 0; k < options.dimension; ++k) {
    ASSERT_GE(objective.a[k], 0.5);
    ASSERT_LE(objective.a[k], 1.5);
    sum_a += objective.a[k];
    sum_b += objective.b[k];
    sum_b2 += (objective.b[k] - 1) * (objective.b[k] - 1);
  }
  const auto n = static_cast<double>(options.dimension);
  EXPECT_NEAR(sum_a / n, 1, 0.01);
  EXPECT_NEAR(sum_b / n, 1, 0.06);
  EXPECT_NEAR(std::sqrt(sum_b2 / n), 2, 0.05);
  EXPECT_NE(quadratic_objective(options, 6).b, objective.b);
}

TEST(Quadratic, ItsGradientIsTheSlopeOfItsValue) {
  const auto model = make_quadratic(small());
  const QuadraticObjective objective = quadratic_objective(small(), 2);
  std::vector<float> x = {0, 1, -1, 2, 0.5F, 3, -2};
  const std::vector<float> gradient = gradient_at(*model, 2, 0, x);
  for (std::size_t k = 0; k < x.size(); ++k) {
    std::vector<float> up = x;
    std::vector<float> down = x;
    up[k] += 0.25F;
    down[k] -= 0.25F;
    EXPECT_NEAR(gradient[k], (objective.value(up.data()) - objective.value(down.data())) / 0.5, 1e-5);
  }
}

TEST(Quadratic, NoiseDependsOnNodeAndStepAlone) {
  QuadraticOptions options = small();
  options.sigma = 1;
  const auto model = make_quadratic(options);
  const std::vector<float> x(7, 0);
  EXPECT_EQ(gradient_at(*model, 1, 4, x), gradient_at(*model, 1, 4, x));
  EXPECT_NE(gradient_at(*model, 1, 4, x), gradient_at(*model, 1, 5, x));
  EXPECT_NE(gradient_at(*model, 1, 4, x), gradient_at(*make_quadratic(small()), 1, 4, x));
}

TEST(Quadratic, TheSumOfTheGradientsVanishesAtThePopulationsOptimum) {
  const NodeId nodes = 9;
  const auto model = make_quadratic(small());
  const std::vector<double> optimum = quadratic_optimum(small(), nodes);
  const std::vector<float> x(optimum.begin(), optimum.end());
  std::vector<double> sum(7, 0);
  for (NodeId node = 0; node < nodes; ++node) {
    const std::vector<float> gradient = gradient_at(*model, node, 0, x);
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += static_cast<double>(gradient[k]);
  }
  for (const double s : sum) EXPECT_NEAR(s, 0, 1e-5);
}

TEST(Quadratic, StartsDependOnSeedAndNode) {
  const auto model = make_quadratic(small());
  const auto start = [&](std::uint64_t seed, NodeId node) {
    std::vector<float> x(7);
    model->initialize(seed, node, x.data(), nullptr);
    return x;
  };
  EXPECT_EQ(start(1, 2), start(1, 2));
  EXPECT_NE(start(1, 2), start(1, 3));
  EXPECT_NE(start(1, 2), start(2, 2));
}

}  // namespace
}  // namespace shoal
