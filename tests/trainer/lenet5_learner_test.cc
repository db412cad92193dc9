// LeNet-5 by hand, without LibTorch: what holds of any gradient. That it is LeNet-5's is torch_reference_test.cc's.
#include "trainer/lenet5_learner.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/trainer/model_harness.h"

namespace shoal {
namespace {

class LeNet5ByHand : public testing::TestWithParam<DataSetShape> {
 protected:
  LeNet5ByHand() : layers_(lenet5_layers(GetParam())) {
    const StateLayout layout(layers_.parameters);
    parameters_.assign(layout.payload_bytes(Part::kPublic) / sizeof(float), 0.0F);
    RandomStream random(3, Purpose::kTest);
    for (std::size_t i = 0; i < layers_.parameters.size(); ++i) {
      float* const first = parameters_.data() + layout.tensors()[i].offset / sizeof(float);
      for (std::size_t k = 0; k < layout.tensors()[i].bytes / sizeof(float); ++k) {
        first[k] = static_cast<float>(layers_.initial[i].spread * (2 * random.uniform() - 1));
      }
    }
  }

  void SetUp() override {
    if (!LeNet5Learner::can_learn(GetParam().image)) GTEST_SKIP() << "this processor has no AVX2";
  }

  std::vector<float> gradient(LeNet5Learner& learner, const Batch& batch) const {
    std::vector<float> slopes(parameters_.size(), std::nanf(""));
    learner.gradient(0, 0, batch, parameters_.data(), nullptr, slopes.data());
    return slopes;
  }

  LeNet5Learner make() const { return LeNet5Learner(layers_.parameters, GetParam().image); }

  Layers layers_;
  std::vector<float> parameters_;
};
INSTANTIATE_TEST_SUITE_P(Images, LeNet5ByHand, testing::Values(kGrey28, kColour32));

Batch part_of(const Batch& batch, std::size_t pixels, std::size_t first, std::size_t size) {
  const auto from = [](const auto& all, std::size_t begin, std::size_t count) {
    const auto start = all.begin() + static_cast<std::ptrdiff_t>(begin);
    return std::vector(start, start + static_cast<std::ptrdiff_t>(count));
  };
  Batch part;
  part.size = size;
  part.images = from(batch.images, first * pixels, size * pixels);
  part.labels = from(batch.labels, first, size);
  return part;
}

TEST_P(LeNet5ByHand, TheGradientOfABatchIsTheMeanOfItsParts) {
  const std::size_t pixels = GetParam().image.pixels();
  const Batch batch = random_batch(GetParam(), 20);  // not a multiple of any tile
  LeNet5Learner learner = make();
  std::vector<double> mean(parameters_.size(), 0.0);
  for (const auto& [first, size] : {std::pair<std::size_t, std::size_t>(0, 1), {1, 2}, {3, 17}}) {
    const std::vector<float> slopes = gradient(learner, part_of(batch, pixels, first, size));
    for (std::size_t k = 0; k < mean.size(); ++k) {
      mean[k] += static_cast<double>(slopes[k]) * static_cast<double>(size) / 20;
    }
  }
  const std::vector<float> whole = gradient(learner, batch);
  for (std::size_t k = 0; k < mean.size(); ++k) ASSERT_NEAR(whole[k], mean[k], 1e-6) << k;
}

TEST_P(LeNet5ByHand, WhatItComputedBeforeLeavesNoTrace) {
  LeNet5Learner used = make();
  gradient(used, random_batch(GetParam(), 64, 1));
  gradient(used, random_batch(GetParam(), 79, 2));
  LeNet5Learner fresh = make();
  const Batch batch = random_batch(GetParam(), 7, 3);
  EXPECT_EQ(gradient(used, batch), gradient(fresh, batch));
}

TEST_P(LeNet5ByHand, AWeightThatIsNoNumberShowsInTheLoss) {
  const StateLayout layout(layers_.parameters);
  for (const TensorPlace& place : layout.tensors()) {
    float& weight = parameters_[place.offset / sizeof(float)];
    const float kept = weight;
    weight = std::nanf("");
    LeNet5Learner learner = make();
    EXPECT_TRUE(std::isnan(learner.score(random_batch(GetParam(), 3), parameters_.data(), nullptr).loss))
        << place.spec.name;
    weight = kept;
  }
}

}  // namespace
}  // namespace shoal
