// DeviceLane on a device that runs things as late, and in as odd an order, as streams and events allow.
#include "pipeline/device_lane.h"

#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/torch_device_memory.h"
#include "store/error.h"
#include "tests/pipeline/fake_device.h"

namespace shoal {
namespace {

constexpr std::size_t kSize = 8;
constexpr std::uint64_t kSeeds = 300;
using Floats = std::vector<float>;
using Eagerness = FakeDevice::Eagerness;

std::byte* bytes(Floats& floats) { return reinterpret_cast<std::byte*>(floats.data()); }
Floats pattern(float first) {
  Floats floats(kSize);
  for (float& value : floats) value = first++;
  return floats;
}

// Uses a lane as a learner does: a frame's state and a batch go up; a gradient and the changed state come back.
class User {
 public:
  explicit User(const std::string& label = "")
      : label_(label),
        memory_(label),
        lane_(FakeDevice::kDevice, memory_),
        state_(memory_.allocate(kBytes)),
        batch_(memory_.allocate(kBytes)),
        gradient_(memory_.allocate(kBytes)) {}

  FakeMemory& memory() { return memory_; }

  void run(Floats& frame, Floats& batch, Floats& gradient, Eagerness eagerness = Eagerness::kNormal) {
    run(frame, batch, gradient, [&] { enqueue_computation(eagerness); });
  }

  void run(Floats& frame, Floats& batch, Floats& gradient, const std::function<void()>& compute) {
    const std::array<CopyIn, 2> in{{{state_.get(), bytes(frame), kBytes}, {batch_.get(), bytes(batch), kBytes}}};
    const std::array<CopyOut, 2> out{
        {{bytes(gradient), gradient_.get(), kBytes}, {bytes(frame), state_.get(), kBytes}}};
    lane_.run(in, compute, out);
  }

  void enqueue_computation(Eagerness eagerness = Eagerness::kNormal) {
    FakeDevice& device = FakeDevice::get();
    device.enqueue(label_ + "compute", [this] {
      for (std::size_t i = 0; i < kSize; ++i) at(gradient_)[i] = 3 * at(state_)[i] + at(batch_)[i];
    });
    device.enqueue(
        label_ + "compute",
        [this] {
          for (std::size_t i = 0; i < kSize; ++i) at(state_)[i] += 1;
        },
        eagerness);
  }

  // Steps whose memory is written over as soon as run() returns.
  void check_steps(float first, int steps) {
    Floats frame;
    Floats batch;
    Floats gradient;
    for (int step = 0; step < steps; ++step) {
      const Floats state = frame = pattern(first += 100);
      const Floats images = batch = pattern(-first * 7);
      gradient.assign(kSize, -1);
      run(frame, batch, gradient);
      for (std::size_t i = 0; i < kSize; ++i) {
        ASSERT_EQ(gradient[i], 3 * state[i] + images[i]);
        ASSERT_EQ(frame[i], state[i] + 1);
      }
      for (Floats* each : {&frame, &batch, &gradient}) std::fill(each->begin(), each->end(), -12345.0F);
    }
  }

 private:
  static constexpr std::size_t kBytes = kSize * sizeof(float);
  static float* at(const DeviceBlock& block) { return reinterpret_cast<float*>(block.get()); }

  std::string label_;
  FakeMemory memory_;
  DeviceLane lane_;
  DeviceBlock state_;
  DeviceBlock batch_;
  DeviceBlock gradient_;
};

TEST(DeviceLane, CopiesInComputesAndCopiesOutInThatOrderHoweverTheStreamsRun) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeDevice::get().begin(seed);
    User user;
    Floats frame = pattern(1);
    Floats batch = pattern(2);
    Floats gradient(kSize);
    user.run(frame, batch, gradient);
    ASSERT_THAT(FakeDevice::get().log(), testing::ElementsAre("in", "in", "compute", "compute", "out", "out"));
  }
}

TEST(DeviceLane, HasAStreamForEachStageThatNoOtherLaneHas) {
  FakeDevice::get().begin(1);
  std::array<User, 2> users;
  std::set<c10::StreamId> streams;
  for (User& user : users) {
    Floats frame = pattern(1);
    user.run(frame, frame, frame, [&] { streams.insert(FakeDevice::get().current_stream().id()); });
    streams.insert({user.memory().stream_of("in"), user.memory().stream_of("out")});
  }
  EXPECT_EQ(streams.size(), 6U);
}

TEST(DeviceLane, LeavesTheFrameToItsOwnerWhenItReturns) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeDevice::get().begin(seed);
    User().check_steps(0, 4);
    ASSERT_EQ(FakeDevice::get().pending(), 0U);
  }
}

TEST(DeviceLane, OfEachThreadGivesThatThreadsResults) {
  for (std::uint64_t seed = 0; seed < kSeeds / 10; ++seed) {
    FakeDevice::get().begin(seed, 2);
    std::vector<std::jthread> threads;
    for (const float first : {0.0F, 50.0F}) {
      threads.emplace_back([first] {
        User().check_steps(first, 6);
        FakeDevice::get().thread_is_done();
      });
    }
  }
}

TEST(DeviceLane, CopiesWhileAnotherComputes) {
  for (std::uint64_t seed = 0; seed < kSeeds / 10; ++seed) {
    FakeDevice& device = FakeDevice::get();
    device.begin(seed, 2);
    {
      const std::jthread first([&] {
        User user("a ");
        Floats frame = pattern(1);
        Floats batch = pattern(2);
        Floats gradient(kSize);
        user.run(frame, batch, gradient, Eagerness::kReluctant);
        device.thread_is_done();
      });
      device.wait_for_a_waiting_thread();
      User user("b ");
      user.check_steps(0, 1);
      device.thread_is_done();
    }
    // All of b fits between the first and the second half of a's computation, whose end nothing hurried.
    ASSERT_THAT(device.log(), testing::IsSupersetOf({"a compute", "b in", "b compute", "b out", "a out"}));
    const std::vector<std::string> log = device.log();
    std::vector<std::string> end(log.end() - 3, log.end());
    ASSERT_THAT(end, testing::ElementsAre("a compute", "a out", "a out"));
  }
}

TEST(DeviceLane, ThatFailsInAnyStageHasNothingPendingAndCanGoOn) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeDevice::get().begin(seed);
    User user;
    Floats frame = pattern(1);
    Floats batch = pattern(2);
    Floats gradient(kSize);
    for (const unsigned copy : {0U, 1U, 2U, 3U}) {
      user.memory().fail_after(copy);
      ASSERT_THROW(user.run(frame, batch, gradient), std::runtime_error);
      ASSERT_EQ(FakeDevice::get().pending(), 0U) << "copy " << copy;
    }
    const auto fail = [&] {
      user.enqueue_computation();
      throw std::runtime_error("computation failed");
    };
    ASSERT_THROW(user.run(frame, batch, gradient, fail), std::runtime_error);
    ASSERT_EQ(FakeDevice::get().pending(), 0U) << "computation";
    user.check_steps(0, 2);
  }
}

TEST(DeviceLane, TellsTheFirstErrorOfADeviceThatIsGone) {
  FakeDevice::get().begin(1);
  User user;
  Floats frame = pattern(1);
  Floats gradient(kSize);
  const auto fail = [] {
    FakeDevice::get().break_down();
    throw std::runtime_error("the first error");
  };
  try {
    user.run(frame, frame, gradient, fail);
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the first error");
  }
}

TEST(DeviceLane, LeavesTheCallersStreamCurrent) {
  FakeDevice& device = FakeDevice::get();
  device.begin(1);
  const c10::Stream mine = device.new_stream();
  const c10::StreamGuard guard(mine);
  User user;
  user.check_steps(0, 1);
  EXPECT_EQ(device.current_stream(), mine);
  user.memory().fail_after(3);
  Floats frame = pattern(1);
  EXPECT_THROW(user.run(frame, frame, frame), std::runtime_error);
  EXPECT_EQ(device.current_stream(), mine);
}

TEST(TorchDeviceMemory, CopiesThereAndBack) {
  TorchDeviceMemory memory{c10::Device(c10::kCPU)};
  const Floats from = pattern(1);
  Floats to(kSize);
  const std::size_t size = kSize * sizeof(float);
  const DeviceBlock block = memory.allocate(size);
  memory.copy_in(block.get(), reinterpret_cast<const std::byte*>(from.data()), size);
  memory.copy_out(bytes(to), block.get(), size);
  EXPECT_EQ(to, from);
}

TEST(TorchDeviceMemory, HasNoBlockOfNoBytes) {
  TorchDeviceMemory memory{c10::Device(c10::kCPU)};
  EXPECT_EQ(memory.allocate(0), nullptr);
  EXPECT_EQ(memory.allocate_pinned(0), nullptr);
  memory.copy_in(nullptr, nullptr, 0);
  memory.copy_out(nullptr, nullptr, 0);
}

}  // namespace
}  // namespace shoal
