#include "trainer/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "store/error.h"
#include "tests/trainer/model_harness.h"

namespace shoal {
namespace {

std::string refusal(const ModelOptions& options) {
  try {
    static_cast<void>(make_model(options));
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
    return error.what();
  }
  return "accepted";
}

template <class T>
T buffer_at(const Node& node, const std::string& name) {
  std::vector<TensorSpec> all = node.model->parameters();
  all.insert(all.end(), node.model->buffers().begin(), node.model->buffers().end());
  T value;
  std::memcpy(&value, node.buffers.data() + (StateLayout(all).find(name).offset - node.model->buffers_offset()),
              sizeof value);
  return value;
}

TEST(Model, HasAsManyParametersAsPapersSay) {
  EXPECT_EQ(make_model({.spec = "lenet5", .data = kGrey28})->parameter_count(), 61706U);
  EXPECT_EQ(make_model({.spec = "lenet5", .data = kColour32})->parameter_count(), 62006U);
  EXPECT_EQ(make_model({.spec = "resnet18", .data = kColour32})->parameter_count(), 11173962U);
  EXPECT_EQ(make_model({.spec = "mlp:784-128-10", .data = kGrey28})->parameter_count(), 101770U);
  EXPECT_EQ(make_model({.spec = "quadratic:33", .data = kGrey28})->parameter_count(), 33U);
}

TEST(Model, PlacesItsTensorsWhereTheStateLayoutDoes) {
  for (const char* spec : {"lenet5", "resnet18"}) {
    const auto model = make_model({.spec = spec, .data = kColour32});
    const StateLayout parameters(model->parameters());
    EXPECT_EQ(model->flat_size() * sizeof(float), parameters.payload_bytes(Part::kPublic));
    std::vector<TensorSpec> all = model->parameters();
    all.insert(all.end(), model->buffers().begin(), model->buffers().end());
    const StateLayout layout(all);
    if (model->buffers().empty()) {
      EXPECT_EQ(model->buffers_bytes(), 0U);
    } else {
      EXPECT_EQ(layout.find(model->buffers().front().name).offset, model->buffers_offset());
      EXPECT_EQ(model->buffers_offset() + model->buffers_bytes(), layout.payload_bytes(Part::kPublic));
    }
  }
}

TEST(Model, StartsWithinOneOverTheRootOfTheFanInAndWithZerosInTheGaps) {
  const Node node("lenet5", kGrey28);
  const StateLayout layout(node.model->parameters());
  const auto check = [&](const std::string& name, double fan_in) {
    const TensorPlace& place = layout.find(name);
    const float* const first = node.parameters.data() + place.offset / sizeof(float);
    const double bound = 1 / std::sqrt(fan_in);
    double sum_of_squares = 0;
    const std::size_t size = place.bytes / sizeof(float);
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_LE(std::abs(static_cast<double>(first[i])), bound) << name;
      sum_of_squares += static_cast<double>(first[i]) * static_cast<double>(first[i]);
    }
    if (size < 1000) return;
    EXPECT_NEAR(std::sqrt(sum_of_squares / static_cast<double>(size)), bound / std::sqrt(3.0), bound / 20);
  };
  check("conv1.weight", 25);
  check("conv1.bias", 25);
  check("conv2.weight", 150);
  check("fc1.weight", 400);
  check("fc1.bias", 400);
  check("fc3.weight", 84);
  int gaps = 0;
  for_each_gap(*node.model, [&](std::size_t k) {
    ++gaps;
    EXPECT_EQ(node.parameters[k], 0.0F);
  });
  EXPECT_GT(gaps, 0);
}

TEST(Model, StartsDependOnSeedAndNode) {
  const auto start = [](std::uint64_t seed, NodeId node) {
    return Node("mlp:784-16-10", kGrey28, seed, node).parameters;
  };
  EXPECT_EQ(start(1, 2), start(1, 2));
  EXPECT_NE(start(1, 2), start(1, 3));
  EXPECT_NE(start(1, 2), start(2, 2));
}

class EveryNetwork : public testing::TestWithParam<std::pair<const char*, DataSetShape>> {
 protected:
  Node make() const { return Node(GetParam().first, GetParam().second); }
};
INSTANTIATE_TEST_SUITE_P(Kinds, EveryNetwork,
                         testing::Values(std::pair("lenet5", kGrey28), std::pair("lenet5", kColour32),
                                         std::pair("mlp:784-32-16-10", kGrey28), std::pair("resnet18", kColour16)));

TEST_P(EveryNetwork, ReadsTheParametersAndWritesAllOfTheGradient) {
  Node node = make();
  const std::vector<float> before = node.parameters;
  const Batch batch = random_batch(GetParam().second, 3);
  node.slope.assign(node.slope.size(), std::nanf(""));
  const double loss = node.gradient(batch);
  EXPECT_GT(loss, 0.5);
  EXPECT_LT(loss, 10);
  EXPECT_EQ(node.parameters, before);
  double length = 0;
  for (const float slope : node.slope) length += static_cast<double>(slope) * static_cast<double>(slope);
  EXPECT_GT(length, 1e-6);  // and no NaN is left
  for_each_gap(*node.model, [&](std::size_t k) { ASSERT_EQ(node.slope[k], 0.0F) << k; });

  const std::vector<float> first = node.slope;
  Node again = make();
  again.gradient(batch);
  EXPECT_EQ(again.slope, first) << "the gradient is overwritten, not accumulated, and the same bits each time";
}

TEST_P(EveryNetwork, LearnsABatchByHeart) {
  Node node = make();
  const Batch batch = random_batch(GetParam().second, 4);
  const double before = node.gradient(batch);
  double after = before;
  for (int step = 0; step < 4; ++step) {
    after = node.gradient(batch);
    for (std::size_t k = 0; k < node.parameters.size(); ++k) node.parameters[k] -= 0.02F * node.slope[k];
  }
  EXPECT_LT(after, before);
}

TEST_P(EveryNetwork, ScoresTheSameInOneBatchAsInTwo) {
  Node node = make();
  const DataSetShape& data = GetParam().second;
  const Batch batch = random_batch(data, 6);
  const std::vector<std::byte> buffers = node.buffers;
  const Score whole = node.score(batch);
  EXPECT_EQ(whole.samples, 6U);
  Score sum;
  for (std::size_t half = 0; half < 2; ++half) {
    Batch part;
    part.size = 3;
    const auto pixels = static_cast<std::ptrdiff_t>(3 * data.image.pixels());
    const auto index = static_cast<std::ptrdiff_t>(half);
    part.images.assign(batch.images.begin() + index * pixels, batch.images.begin() + (index + 1) * pixels);
    part.labels.assign(batch.labels.begin() + index * 3, batch.labels.begin() + (index + 1) * 3);
    const Score score = node.score(part);
    sum.correct += score.correct;
    sum.loss += score.loss / 2;
  }
  EXPECT_EQ(whole.correct, sum.correct);
  EXPECT_NEAR(whole.loss, sum.loss, 1e-5);
  EXPECT_EQ(node.buffers, buffers) << "a score changes nothing";
}

TEST_P(EveryNetwork, TwoThreadsWithTheirOwnLearnersGiveTheBitsOfOne) {
  prepare_tensor_library(1);
  const Batch batches[] = {random_batch(GetParam().second, 5, 1), random_batch(GetParam().second, 5, 2)};
  std::vector<float> alone[2];
  for (std::size_t i = 0; i < 2; ++i) {
    Node node = make();
    node.gradient(batches[i]);
    alone[i] = node.slope;
  }
  Node nodes[] = {make(), make()};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      prepare_worker_thread(1);
      nodes[i].gradient(batches[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(nodes[0].slope, alone[0]);
  EXPECT_EQ(nodes[1].slope, alone[1]);
}

// Against central differences of the loss, which come from score(). A coordinate whose kink (ReLU, pooling) lies within
// the difference may be far off, so most must agree, not all.
void expect_slopes_of_the_loss(const char* spec, const DataSetShape& data) {
  Node node(spec, data);
  const Batch batch = random_batch(data, 4);
  node.gradient(batch);
  RandomStream random(5, Purpose::kTest);
  int close = 0;
  int checked = 0;
  const StateLayout layout(node.model->parameters());
  for (const TensorPlace& place : layout.tensors()) {
    for (int i = 0; i < 8; ++i) {
      const auto size = static_cast<std::uint32_t>(place.bytes / sizeof(float));
      const std::size_t k = place.offset / sizeof(float) + random.below(size);
      const float kept = node.parameters[k];
      const float width = 4e-3F;
      node.parameters[k] = kept + width;
      const double up = node.score(batch).loss;
      node.parameters[k] = kept - width;
      const double down = node.score(batch).loss;
      node.parameters[k] = kept;
      const double slope = (up - down) / (2 * static_cast<double>(width));
      ++checked;
      if (std::abs(slope - static_cast<double>(node.slope[k])) < 2e-4 + 0.02 * std::abs(slope)) ++close;
    }
  }
  EXPECT_GE(close, checked * 8 / 10) << "of " << checked;
}

TEST(Mlp, ItsGradientIsTheSlopeOfTheLoss) { expect_slopes_of_the_loss("mlp:784-24-10", kGrey28); }
TEST(LeNet5, ItsGradientIsTheSlopeOfTheLossForGreyImages) { expect_slopes_of_the_loss("lenet5", kGrey28); }
TEST(LeNet5, ItsGradientIsTheSlopeOfTheLossForColourImages) { expect_slopes_of_the_loss("lenet5", kColour32); }

TEST(Mlp, CountsWhatItGetsRight) {
  // One layer that copies the pixels: the brightest pixel is the class.
  const DataSetShape data = {{1, 1, 3}, 3};
  Node node("mlp:3-3", data);
  node.parameters.assign(node.parameters.size(), 0.0F);
  for (std::size_t i = 0; i < 3; ++i) node.parameters[i * 3 + i] = 1;
  Batch batch;
  batch.size = 4;
  batch.images = {9, 0, 0, 0, 9, 0, 0, 0, 9, 9, 0, 0};
  batch.labels = {0, 1, 0, 0};
  const Score score = node.score(batch);
  EXPECT_EQ(score.samples, 4U);
  EXPECT_EQ(score.correct, 3U);
  const double right = std::log(1 + 2 * std::exp(-9.0));
  EXPECT_NEAR(score.loss, (3 * right + 9 + right) / 4, 1e-5);
}

TEST(ResNet18, ItsBatchNormsCountAndAverage) {
  Node node("resnet18", kColour32);
  EXPECT_EQ(buffer_at<float>(node, "bn1.running_mean"), 0.0F);
  EXPECT_EQ(buffer_at<float>(node, "bn1.running_var"), 1.0F);
  EXPECT_EQ(buffer_at<std::int64_t>(node, "layer4.1.bn2.num_batches_tracked"), 0);
  node.gradient(random_batch(kColour32, 2));
  node.gradient(random_batch(kColour32, 2));
  EXPECT_NE(buffer_at<float>(node, "bn1.running_mean"), 0.0F);
  EXPECT_NE(buffer_at<float>(node, "layer4.1.bn2.running_var"), 1.0F);
  EXPECT_EQ(buffer_at<std::int64_t>(node, "layer4.1.bn2.num_batches_tracked"), 2);
}

TEST(Model, RefusesWhatDoesNotFit) {
  EXPECT_NE(refusal({.spec = "alexnet", .data = kGrey28}).find("lenet5, resnet18"), std::string::npos);
  EXPECT_NE(refusal({.spec = "lenet5", .data = {{1, 8, 8}, 10}}).find("28 x 28"), std::string::npos);
  EXPECT_NE(refusal({.spec = "mlp:784-128-12", .data = kGrey28}).find("the last 10"), std::string::npos);
  EXPECT_NE(refusal({.spec = "mlp:100-10", .data = kGrey28}).find("must be 784"), std::string::npos);
  for (const char* spec : {"mlp", "mlp:", "mlp:784", "mlp:784-", "mlp:784-0-10", "mlp:784--10", "mlp:784-10x"}) {
    EXPECT_NE(refusal({.spec = spec, .data = kGrey28}).find("mlp:784-128-10"), std::string::npos) << spec;
  }
  EXPECT_NE(refusal({.spec = "lenet5", .data = kGrey28, .device = "tpu"}).find("write cpu"), std::string::npos);
  EXPECT_NE(refusal({.spec = "quadratic", .data = kGrey28, .device = "cuda"}).find("--device cpu"), std::string::npos);
}

}  // namespace
}  // namespace shoal
