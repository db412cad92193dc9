#include "store/slab_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>

namespace shoal {
namespace {

using ::testing::ElementsAre;

const StateLayout kLayout({{"weights", DType::kFloat32, {16000}, Part::kPublic},
                           {"momentum", DType::kFloat32, {16000}, Part::kPrivate}});
const std::uint64_t kRecord = kLayout.record_bytes(Part::kPublic);

// Remembers the batches; completes them when it is told to.
class Recorder final : public IoDevice {
 public:
  explicit Recorder(unsigned depth) : depth_(depth) {}
  std::vector<std::vector<IoRequest>> batches;

  void complete() {
    for (const auto& batch : batches) {
      for (const IoRequest& request : batch) done_.push_back({request.tag, request.length});
    }
    batches.clear();
  }

  FileId open(const std::filesystem::path&, OpenMode) override { return files_++; }
  const std::filesystem::path& path(FileId) const override { return path_; }
  std::uint64_t size(FileId) const override { return 0; }
  void resize(FileId, std::uint64_t) override {}
  void allocate(FileId, std::uint64_t, std::uint64_t) override {}
  void punch(FileId, std::uint64_t, std::uint64_t) override {}
  void sync(FileId) override {}
  std::string_view name() const override { return "recorder"; }
  std::vector<ModeReport> modes() const override { return {}; }
  void submit(std::span<const IoRequest> requests) override { batches.emplace_back(requests.begin(), requests.end()); }
  void wait(WaitMode, std::vector<IoCompletion>& done) override { std::swap(done, done_); }
  void wake() noexcept override {}
  unsigned depth() const override { return depth_; }
  std::byte* in_place(FileId, std::uint64_t) override { return nullptr; }

 private:
  unsigned depth_;
  FileId files_ = 0;
  std::filesystem::path path_;
  std::vector<IoCompletion> done_;
};

class SlabIoTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kFrames = 64;
  static constexpr unsigned kDepth = 16;

  SlabIoTest() {
    arena_.split(kFrames, 1);
    for (NodeId node = 0; node < kFrames; ++node) frames_.push_back(cache_.bind(Part::kPublic, node, false));
  }

  static ArenaOptions addresses_only(std::uint64_t bytes) {
    ArenaOptions options;
    options.bytes = bytes;
    options.addresses_only = true;
    return options;
  }
  static std::vector<std::uint64_t> slots_of(const std::vector<IoRequest>& batch) {
    std::vector<std::uint64_t> slots;
    for (const IoRequest& request : batch) slots.push_back(request.offset / kRecord);
    return slots;
  }

  MemoryBudget budget_{std::uint64_t{1} << 30};
  Arena arena_{addresses_only((kFrames + 1) * kRecord), kLayout, budget_};
  Recorder device_{kDepth};
  FrameCache cache_{arena_, kFrames};
  Slab publics_{device_, "public.slab", OpenMode::kCreate, Part::kPublic, kRecord};
  Slab privates_{device_, "private.slab", OpenMode::kCreate, Part::kPrivate, kRecord};
  std::array<Slab*, kPartCount> slabs_{&publics_, &privates_};
  std::vector<FrameId> frames_;
};

TEST_F(SlabIoTest, HandsNeighboursOverTogetherInTheOrderOfTheFile) {
  SlabIo io(device_, cache_, slabs_, 16);
  const Slot slots[] = {20, 7, 3, 21, 5, 19, 4, 30};
  for (std::size_t i = 0; i < std::size(slots); ++i) io.start(IoRequest::Op::kRead, frames_[i], slots[i]);
  io.submit(16);
  ASSERT_EQ(device_.batches.size(), 1U);
  EXPECT_THAT(slots_of(device_.batches[0]), ElementsAre(19, 20, 21, 7, 3, 4, 5, 30));
}

TEST_F(SlabIoTest, JoinsNoReadsWithWrites) {
  SlabIo io(device_, cache_, slabs_, 16);
  io.start(IoRequest::Op::kRead, frames_[0], 5);
  io.start(IoRequest::Op::kRead, frames_[1], 9);
  io.start(IoRequest::Op::kWrite, frames_[2], 6);
  io.submit(16);
  EXPECT_THAT(slots_of(device_.batches.at(0)), ElementsAre(5, 9, 6));
}

TEST_F(SlabIoTest, KeepsNoMoreUnderWayThanItMay) {
  SlabIo io(device_, cache_, slabs_, 16);
  for (Slot slot = 0; slot < 12; ++slot) io.start(IoRequest::Op::kRead, frames_[slot], 2 * slot);
  io.submit(5);
  ASSERT_EQ(device_.batches.size(), 1U);
  EXPECT_EQ(device_.batches[0].size(), 5U);
  io.submit(3);
  EXPECT_EQ(device_.batches.size(), 1U) << "more than that are under way";
  io.submit(8);
  ASSERT_EQ(device_.batches.size(), 2U);
  EXPECT_EQ(device_.batches[1].size(), 3U);
  device_.complete();
  io.collect(WaitMode::kPoll, [](FrameId, IoRequest::Op) {});
  ASSERT_EQ(device_.batches.size(), 1U) << "the device gets the next ones when it is done with those before";
  EXPECT_EQ(device_.batches[0].size(), 4U);
}

TEST_F(SlabIoTest, SubmitsEveryTransferOnceWhateverIsQueuedAndHoweverLittleTheDeviceTakes) {
  std::mt19937 random(1);
  for (const auto& [batch, most] : {std::pair{1U, 64U}, {3U, 16U}, {8U, 5U}}) {
    SlabIo io(device_, cache_, slabs_, batch);
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::vector<Slot> slots(kFrames);
      for (Slot slot = 0; slot < kFrames; ++slot) slots[slot] = slot + slot / 5;
      std::ranges::shuffle(slots, random);
      std::multiset<FrameId> finished;
      for (std::uint32_t i = 0; i < kFrames; ++i) {
        io.start(random() % 4 == 0 ? IoRequest::Op::kWrite : IoRequest::Op::kRead, frames_[i], slots[i]);
        if (random() % 8 == 0) io.submit(most);
      }
      while (!io.idle()) {
        io.submit(most);
        EXPECT_EQ(io.queued(), finished.size() + std::min(most, kDepth) < kFrames);
        for (const auto& each : device_.batches) EXPECT_LE(each.size(), batch);
        device_.complete();
        io.collect(WaitMode::kPoll, [&](FrameId frame, IoRequest::Op) { finished.insert(frame); });
      }
      EXPECT_EQ(finished, std::multiset<FrameId>(frames_.begin(), frames_.end()));
    }
  }
}

}  // namespace
}  // namespace shoal
