// DeviceLearner on the fake device: the copies are the fake's, the computation is LibTorch's on the host.
#include "trainer/device_learner.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/pipeline/fake_device.h"
#include "tests/trainer/model_harness.h"
#include "trainer/pinned_memory.h"

namespace shoal {
namespace {

// The same model with a learner that works on the host's memory and one that works through the lane.
class OnDevice : public testing::TestWithParam<const char*> {
 protected:
  OnDevice() {
    FakeDevice::get().begin(1, 1, FakeDevice::Order::kEager);
    const auto& model = dynamic_cast<const TorchModel&>(*host_.model);
    host_.learner = std::make_unique<TorchLearner>(model);
    device_.learner = std::make_unique<DeviceLearner>(model, FakeDevice::kDevice, std::make_unique<FakeMemory>());
  }

  Node host_{GetParam(), kColour32};
  Node device_{GetParam(), kColour32};
};

TEST_P(OnDevice, GradientsLossesAndBuffersAreThoseOfTheHost) {
  for (const std::size_t size : {2, 5, 3}) {
    const Batch batch = random_batch(kColour32, size, size);
    EXPECT_EQ(device_.gradient(batch), host_.gradient(batch));
    EXPECT_EQ(device_.slope, host_.slope);
    EXPECT_EQ(device_.buffers, host_.buffers);
    EXPECT_EQ(device_.parameters, host_.parameters);
  }
}

TEST_P(OnDevice, ScoresAreThoseOfTheHost) {
  for (const std::size_t size : {5, 3, 0}) {
    const Batch batch = random_batch(kColour32, size, size);
    const Score there = device_.score(batch);
    const Score here = host_.score(batch);
    EXPECT_EQ(there.samples, here.samples);
    EXPECT_EQ(there.correct, here.correct);
    EXPECT_EQ(there.loss, here.loss);
    EXPECT_EQ(device_.buffers, host_.buffers);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OnDevice, testing::Values("lenet5", "mlp:3072-16-10", "resnet18"));

TEST(PinnedMemory, AsksForNoMoreThanItsPowerOfTwoLeavesRoomFor) {
  EXPECT_EQ(PinnedMemory::within(5 << 20, 8 << 20), 5U << 20);
  EXPECT_EQ(PinnedMemory::within(5 << 20, 7 << 20), 4U << 20);
  EXPECT_EQ(PinnedMemory::within(8 << 20, 8 << 20), 8U << 20);
}

}  // namespace
}  // namespace shoal
