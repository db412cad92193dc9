#include "pipeline/mix.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace shoal {
namespace {

TEST(Mix, AddsUpInTheOrderOfItsInputs) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const std::size_t size : {1U, 16U, 1000U, 5000U}) {
    for (const std::size_t inputs : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 10U, 18U, 19U, 40U}) {
      std::vector<std::vector<float>> data(inputs, std::vector<float>(size));
      std::vector<const float*> pointers;
      std::vector<float> weights;
      for (auto& each : data) {
        for (float& value : each) value = normal(random);
        pointers.push_back(each.data());
        weights.push_back(normal(random));
      }
      std::vector<float> out(size, -1);
      mix(weights, pointers, out.data(), size);
      for (std::size_t k = 0; k < size; ++k) {
        volatile float expected = weights[0] * data[0][k];
        for (std::size_t j = 1; j < inputs; ++j) {
          volatile const float term = weights[j] * data[j][k];
          expected = expected + term;
        }
        ASSERT_EQ(out[k], expected) << size << ' ' << inputs << ' ' << k;
      }
    }
  }
}

TEST(Mix, OfTheNodeAloneWithWeightOneIsACopy) {
  const std::vector<float> own = {1.5F, -2, 0, 3e-30F};
  const float weight = 1;
  const float* const input = own.data();
  std::vector<float> out(own.size(), 9);
  mix({&weight, 1}, {&input, 1}, out.data(), out.size());
  EXPECT_EQ(out, own);
}

TEST(Mix, TakesTheChecksOfItsInputsAlong) {
  constexpr std::size_t kFloats = 5000;
  const std::uint64_t bytes = round_up(sizeof(RecordHeader) + kFloats * sizeof(float), kBlockBytes);
  std::vector<std::vector<std::byte>> records(12, std::vector<std::byte>(bytes, std::byte{1}));
  std::vector<RecordCheck> checks(11);
  std::vector<const float*> inputs;
  for (std::size_t j = 0; j < records.size(); ++j) {
    seal(records[j].data(), {Part::kPublic, 5, 1}, bytes, 9);
    inputs.push_back(reinterpret_cast<const float*>(payload(records[j].data())));
    if (j < checks.size()) checks[j].begin(records[j].data(), {Part::kPublic, 5, 1}, bytes, 9);
  }
  for (const std::size_t damaged : {1U, 10U}) records[damaged][bytes / 2] = std::byte{2};
  const std::vector<float> weights(records.size(), 1.0F);
  std::vector<float> out(kFloats);
  mix(weights, inputs, out.data(), out.size(), checks);
  // What was taken in while mixing is what counts, not what is there afterwards.
  for (const std::size_t damaged : {1U, 10U}) records[damaged][bytes / 2] = std::byte{1};
  for (std::size_t j = 0; j < checks.size(); ++j) EXPECT_EQ(checks[j].finish().empty(), j != 1 && j != 10) << j;
}

}  // namespace
}  // namespace shoal
