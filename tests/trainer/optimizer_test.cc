#include "trainer/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "store/error.h"
#include "trainer/quadratic.h"
#include "trainer/random.h"

namespace shoal {
namespace {

constexpr std::size_t kSize = 1003;  // not a multiple of any vector

std::vector<float> random_floats(std::uint64_t stream, std::size_t size = kSize) {
  RandomStream random(7, Purpose::kTest, 0, stream);
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

struct Slots {
  explicit Slots(const Optimizer& optimizer, std::size_t size = kSize)
      : memory(optimizer.slots().size(), std::vector<float>(size, 0.0F)) {
    for (auto& slot : memory) pointers.push_back(slot.data());
  }
  std::vector<std::vector<float>> memory;
  std::vector<float*> pointers;
};

std::vector<OptimizerOptions> all_kinds() {
  std::vector<OptimizerOptions> kinds(5);
  kinds[0] = {.name = "sgd", .momentum = 0, .weight_decay = 0.01};
  kinds[1] = {.name = "sgd", .momentum = 0.9, .weight_decay = 0.01};
  kinds[2] = {.name = "sgd", .momentum = 0.9, .nesterov = true, .weight_decay = 0.01};
  kinds[3] = {.name = "adam", .weight_decay = 0.01};
  kinds[4] = {.name = "adamw", .weight_decay = 0.01};
  return kinds;
}

std::string title(const OptimizerOptions& o) {
  return o.name + (o.nesterov ? " nesterov " : " ") + std::to_string(o.momentum);
}

TEST(Optimizer, NamesItsSlots) {
  using Names = std::vector<std::string>;
  const auto kinds = all_kinds();
  EXPECT_EQ(make_optimizer(kinds[0])->slots(), Names());
  EXPECT_EQ(make_optimizer(kinds[1])->slots(), Names({"momentum"}));
  EXPECT_EQ(make_optimizer(kinds[3])->slots(), Names({"first_moment", "second_moment"}));
}

TEST(Optimizer, SgdWithMomentumFollowsItsFormula) {
  const auto optimizer = make_optimizer({.name = "sgd", .momentum = 0.5, .weight_decay = 0.25});
  float x = 2;
  float velocity = 0;
  float* const slots[] = {&velocity};
  const float gradient = 1;
  OptimizerPass pass = {&x, &x, &gradient, &x, slots, 1, 0.5, 1};
  optimizer->apply(pass);
  EXPECT_FLOAT_EQ(velocity, 1.5F);  // 1 + 0.25 * 2
  EXPECT_FLOAT_EQ(x, 1.25F);
  optimizer->apply(pass);
  EXPECT_FLOAT_EQ(velocity, 0.5F * 1.5F + 1 + 0.25F * 1.25F);
  EXPECT_FLOAT_EQ(x, 1.25F - 0.5F * velocity);
}

TEST(Optimizer, AdamsFirstStepIsTheLearningRateInEachCoordinate) {
  const auto optimizer = make_optimizer({.name = "adam"});
  const std::vector<float> start = random_floats(1);
  const std::vector<float> gradient = random_floats(2);
  std::vector<float> x = start;
  const Slots slots(*optimizer);
  optimizer->apply({x.data(), x.data(), gradient.data(), x.data(), slots.pointers, kSize, 0.01, 1});
  for (std::size_t k = 0; k < kSize; ++k) ASSERT_NEAR(start[k] - x[k], std::copysign(0.01F, gradient[k]), 1e-5) << k;
}

TEST(Optimizer, GivesTheSameBitsInPlaceAndInSeparateMemory) {
  for (const OptimizerOptions& options : all_kinds()) {
    SCOPED_TRACE(title(options));
    const auto optimizer = make_optimizer(options);
    const std::vector<float> start = random_floats(1);
    const Slots apart_slots(*optimizer);
    const Slots in_place_slots(*optimizer);
    std::vector<float> apart = start;
    std::vector<float> in_place = start;
    for (std::uint64_t step = 1; step <= 3; ++step) {
      const std::vector<float> gradient = random_floats(step + 10);
      const std::vector<float> base = apart;
      const std::vector<float> point = apart;
      optimizer->apply(
          {base.data(), point.data(), gradient.data(), apart.data(), apart_slots.pointers, kSize, 0.1, step});
      optimizer->apply({in_place.data(), in_place.data(), gradient.data(), in_place.data(), in_place_slots.pointers,
                        kSize, 0.1, step});
    }
    EXPECT_EQ(apart, in_place);
    EXPECT_EQ(apart_slots.memory, in_place_slots.memory);
    EXPECT_NE(apart, start);
  }
}

TEST(Optimizer, StepsFromTheBaseByWhatThePointSays) {
  for (const OptimizerOptions& options : all_kinds()) {
    SCOPED_TRACE(title(options));
    const auto optimizer = make_optimizer(options);
    const std::vector<float> base = random_floats(1);
    const std::vector<float> point = random_floats(2);
    const std::vector<float> gradient = random_floats(3);
    const Slots first_slots(*optimizer);
    const Slots second_slots(*optimizer);
    std::vector<float> from_base(kSize);
    std::vector<float> from_point(kSize);
    optimizer->apply(
        {base.data(), point.data(), gradient.data(), from_base.data(), first_slots.pointers, kSize, 0.1, 1});
    optimizer->apply(
        {point.data(), point.data(), gradient.data(), from_point.data(), second_slots.pointers, kSize, 0.1, 1});
    for (std::size_t k = 0; k < kSize; ++k) {
      ASSERT_NEAR(base[k] - from_base[k], point[k] - from_point[k],
                  1e-6 * (1 + std::abs(base[k]) + std::abs(point[k])));
    }
  }
}

TEST(Optimizer, WithoutALearningRateNothingMoves) {
  for (const OptimizerOptions& options : all_kinds()) {
    SCOPED_TRACE(title(options));
    const auto optimizer = make_optimizer(options);
    const std::vector<float> start = random_floats(1);
    const std::vector<float> gradient = random_floats(2);
    const Slots slots(*optimizer);
    std::vector<float> x = start;
    optimizer->apply({x.data(), x.data(), gradient.data(), x.data(), slots.pointers, kSize, 0, 1});
    EXPECT_EQ(x, start);
  }
}

TEST(Optimizer, WeightDecayShrinksTheParametersWhereThereIsNoSlope) {
  for (const OptimizerOptions& options : all_kinds()) {
    SCOPED_TRACE(title(options));
    const auto optimizer = make_optimizer(options);
    const std::vector<float> start = random_floats(1);
    const std::vector<float> gradient(kSize, 0.0F);
    const Slots slots(*optimizer);
    std::vector<float> x = start;
    optimizer->apply({x.data(), x.data(), gradient.data(), x.data(), slots.pointers, kSize, 1e-3, 1});
    for (std::size_t k = 0; k < kSize; ++k) {
      if (std::abs(start[k]) < 0.01F) continue;
      ASSERT_LT(std::abs(x[k]), std::abs(start[k])) << k;
    }
  }
}

TEST(Optimizer, GapsOfZerosStayZeros) {
  for (const OptimizerOptions& options : all_kinds()) {
    SCOPED_TRACE(title(options));
    const auto optimizer = make_optimizer(options);
    const std::vector<float> zeros(kSize, 0.0F);
    const Slots slots(*optimizer);
    std::vector<float> x = zeros;
    for (std::uint64_t step = 1; step <= 3; ++step) {
      optimizer->apply({x.data(), x.data(), zeros.data(), x.data(), slots.pointers, kSize, 0.1, step});
    }
    EXPECT_EQ(x, zeros);
    for (const auto& slot : slots.memory) EXPECT_EQ(slot, zeros);
  }
}

TEST(Optimizer, FindsTheMinimumOfAQuadratic) {
  const QuadraticOptions problem = {.dimension = 50, .zeta = 1, .sigma = 0, .seed = 2};
  const QuadraticObjective objective = quadratic_objective(problem, 4);
  const auto model = make_quadratic(problem);
  const auto learner = model->make_learner();
  for (OptimizerOptions options : all_kinds()) {
    SCOPED_TRACE(title(options));
    options.weight_decay = 0;
    const auto optimizer = make_optimizer(options);
    const Slots slots(*optimizer, 50);
    std::vector<float> x(50);
    std::vector<float> gradient(50);
    model->initialize(1, 0, x.data(), nullptr);
    for (std::uint64_t step = 1; step <= 2000; ++step) {
      learner->gradient(4, step, {}, x.data(), nullptr, gradient.data());
      optimizer->apply({x.data(), x.data(), gradient.data(), x.data(), slots.pointers, 50, 0.05, step});
    }
    for (std::size_t k = 0; k < 50; ++k) EXPECT_NEAR(x[k], objective.b[k], 1e-3);
  }
}

TEST(Optimizer, OfEachNameCanBeMade) {
  for (const std::string& name : optimizer_names()) EXPECT_NE(make_optimizer({.name = name}), nullptr) << name;
}

}  // namespace
}  // namespace shoal
