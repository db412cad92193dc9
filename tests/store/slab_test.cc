#include "store/slab.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "store/error.h"
#include "store/memory_device.h"

namespace shoal {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::filesystem::path kPath = "/nvme/public.slab";

// A disk without bytes: only the file's size, and which slots have blocks. So slots can be so large that the slab grows
// by one or two at a time.
class BlockMap final : public IoDevice {
 public:
  explicit BlockMap(std::uint64_t slot_bytes) : slot_bytes_(slot_bytes) {}

  bool has_blocks(Slot slot) const { return blocks_.contains(slot); }
  std::size_t blocks() const { return blocks_.size(); }  // slots that have them
  void set_full(bool full) { full_ = full; }

  FileId open(const std::filesystem::path& path, OpenMode) override {
    path_ = path;
    return 0;
  }
  const std::filesystem::path& path(FileId) const override { return path_; }
  std::uint64_t size(FileId) const override { return size_; }
  void resize(FileId, std::uint64_t bytes) override {
    refuse_when_full();
    for (std::uint64_t at = size_; at < bytes; at += slot_bytes_) blocks_.insert(slot_at(at));
    size_ = bytes;
  }
  void allocate(FileId, std::uint64_t offset, std::uint64_t length) override {
    EXPECT_EQ(length, slot_bytes_);
    refuse_when_full();
    blocks_.insert(slot_at(offset));
  }
  void punch(FileId, std::uint64_t offset, std::uint64_t length) override {
    EXPECT_EQ(length, slot_bytes_);
    EXPECT_EQ(blocks_.erase(slot_at(offset)), 1u) << "punched twice";
  }

  std::string_view name() const override { return "block map"; }
  std::vector<ModeReport> modes() const override { return {}; }
  void sync(FileId) override {}
  void submit(std::span<const IoRequest>) override {}
  void wait(WaitMode, std::vector<IoCompletion>&) override {}
  void wake() noexcept override {}
  unsigned depth() const override { return 1; }
  std::byte* in_place(FileId, std::uint64_t) override { return nullptr; }

 private:
  Slot slot_at(std::uint64_t offset) const {
    EXPECT_EQ(offset % slot_bytes_, 0u);
    return static_cast<Slot>(offset / slot_bytes_);
  }
  void refuse_when_full() const {
    if (full_) throw Error("no space left on device");
  }

  std::uint64_t slot_bytes_;
  std::filesystem::path path_;
  std::uint64_t size_ = 0;
  std::set<Slot> blocks_;
  bool full_ = false;
};

TEST(Slab, NeverHandsOutASlotThatIsLiveOrRetained) {
  constexpr std::uint64_t kSlotBytes = 24 << 20;  // the first growth is two slots
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    BlockMap device(kSlotBytes);
    Slab slab(device, kPath, OpenMode::kCreate, Part::kPublic, kSlotBytes);
    std::vector<Slot> live;
    std::set<Slot> committed;
    std::set<Slot> prepared;
    std::set<Slot> punched;  // and not handed out since
    std::size_t most_used = 0;
    for (int i = 0; i < 2000; ++i) {
      const auto choice = random() % 100;
      if (choice == 0) {
        slab.punch_free(1);
        for (Slot slot = 0; slot < slab.slots(); ++slot) {
          if (!device.has_blocks(slot)) punched.insert(slot);
        }
      } else if (choice < 48) {
        std::set<Slot> taken = committed;
        taken.insert(prepared.begin(), prepared.end());
        taken.insert(live.begin(), live.end());
        const std::uint64_t slots_before = slab.slots();
        const Slot slot = slab.allocate();
        ASSERT_FALSE(taken.contains(slot)) << "slot " << slot << " is in use";
        ASSERT_EQ(slab.slots() > slots_before, taken.size() == slots_before) << "grows when, and only when, it is full";
        live.push_back(slot);
        punched.erase(slot);
      } else if (choice < 98 && !live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        const bool punch = random() % 3 == 0;
        if (punch) punched.insert(live.back());
        slab.release(live.back(), punch ? AfterRelease::kPunch : AfterRelease::kReuse);
        live.pop_back();
      } else if (choice >= 98 && prepared.empty()) {
        slab.retain_live();
        prepared = {live.begin(), live.end()};
      } else if (choice >= 98) {
        slab.drop_previous();
        committed = std::exchange(prepared, {});
      }
      std::set<Slot> retained = committed;
      retained.insert(prepared.begin(), prepared.end());
      std::set<Slot> used = retained;
      used.insert(live.begin(), live.end());
      ASSERT_EQ(slab.used_bytes(), used.size() * kSlotBytes);
      ASSERT_EQ(slab.disk_bytes(), device.blocks() * kSlotBytes);
      most_used = std::max(most_used, used.size());
      ASSERT_EQ(slab.most_used(), most_used);
      ASSERT_EQ(slab.slots(), Slab::slots_for(most_used, kSlotBytes))
          << "the size follows from how many it had to hold";
      for (Slot slot = 0; slot < slab.slots(); ++slot) {
        ASSERT_EQ(slab.retained(slot), retained.contains(slot));
        ASSERT_EQ(device.has_blocks(slot), used.contains(slot) || !punched.contains(slot)) << "slot " << slot;
      }
      ASSERT_EQ(device.size(slab.file()), slab.slots() * kSlotBytes);
    }
  }
}

TEST(Slab, FreesWhatOnlyThePreviousCheckpointHeld) {
  constexpr std::uint64_t kSlotBytes = 64 << 20;
  BlockMap device(kSlotBytes);
  Slab slab(device, kPath, OpenMode::kCreate, Part::kPublic, kSlotBytes);
  const Slot old = slab.allocate();
  slab.retain_live();
  slab.drop_previous();
  slab.release(old);
  const Slot current = slab.allocate();
  EXPECT_NE(current, old) << "the last checkpoint refers to it";
  EXPECT_EQ(slab.used_bytes(), 2 * kSlotBytes);

  slab.retain_live();
  EXPECT_TRUE(slab.retained(old)) << "it stays until the next one is committed";
  EXPECT_EQ(slab.used_bytes(), 2 * kSlotBytes);
  slab.drop_previous();
  EXPECT_EQ(slab.used_bytes(), kSlotBytes);
  EXPECT_FALSE(slab.retained(old));
  EXPECT_TRUE(slab.retained(current));
  EXPECT_EQ(slab.allocate(), old);
}

TEST(Slab, HandsOutNeighboursOneAfterTheOtherAndGoesRound) {
  constexpr std::uint64_t kSlotBytes = 1 << 20;  // 64 slots at first
  BlockMap device(kSlotBytes);
  Slab slab(device, kPath, OpenMode::kCreate, Part::kPublic, kSlotBytes);
  for (Slot slot = 0; slot < 64; ++slot) ASSERT_EQ(slab.allocate(), slot);
  for (const Slot slot : {50, 10, 12, 11}) slab.release(slot);
  for (const Slot slot : {10, 11, 12}) EXPECT_EQ(slab.allocate(), slot);
  slab.release(11);
  EXPECT_EQ(slab.allocate(), 50U) << "after the one before";
  EXPECT_EQ(slab.allocate(), 11U) << "round the end";
}

TEST(Slab, HandsOutTheSlotThatIsWantedIfItIsFree) {
  constexpr std::uint64_t kSlotBytes = 1 << 20;
  BlockMap device(kSlotBytes);
  Slab slab(device, kPath, OpenMode::kCreate, Part::kPrivate, kSlotBytes);
  EXPECT_EQ(slab.allocate(40), 40U);
  EXPECT_EQ(slab.allocate(40), 0U) << "it is taken";
  EXPECT_EQ(slab.allocate(1'000'000), 1U) << "the file does not grow for it";
  EXPECT_EQ(slab.slots(), 64U);
}

TEST(Slab, HandsOutSlotsWithBlocksBeforeThoseThatWerePunched) {
  constexpr std::uint64_t kSlotBytes = 1 << 20;
  BlockMap device(kSlotBytes);
  Slab slab(device, kPath, OpenMode::kCreate, Part::kPublic, kSlotBytes);
  for (Slot slot = 0; slot < 64; ++slot) slab.allocate();
  slab.release(3, AfterRelease::kPunch);
  slab.release(7);
  EXPECT_EQ(slab.disk_bytes(), 63 * kSlotBytes);
  EXPECT_EQ(slab.allocate(3), 7U);
  EXPECT_FALSE(slab.can_allocate_in_place());
  EXPECT_EQ(slab.allocate(), 3U) << "no growth while there is a hole";
  EXPECT_TRUE(device.has_blocks(3));
  EXPECT_EQ(slab.disk_bytes(), 64 * kSlotBytes);
}

TEST(Slab, GrowsByNoMoreThanItIsGivenRoomFor) {
  constexpr std::uint64_t kSlotBytes = 1 << 20;  // 64 at a time
  BlockMap device(kSlotBytes);
  Slab slab(device, kPath, OpenMode::kCreate, Part::kPublic, kSlotBytes);
  slab.allocate(std::nullopt, 5);
  EXPECT_EQ(slab.slots(), 5u);
  for (int i = 0; i < 4; ++i) slab.allocate(std::nullopt, 0);
  EXPECT_EQ(slab.slots(), 5u);
  slab.allocate(std::nullopt, 0);
  EXPECT_EQ(slab.slots(), 6u) << "one more is always to be had";
  slab.allocate();
  EXPECT_EQ(slab.slots(), 70u);
}

TEST(Slab, ChangesNothingWhenTheDiskIsFull) {
  constexpr std::uint64_t kSlotBytes = 64 << 20;
  BlockMap device(kSlotBytes);
  Slab slab(device, kPath, OpenMode::kCreate, Part::kPublic, kSlotBytes);
  const Slot first = slab.allocate();

  device.set_full(true);
  EXPECT_THROW(slab.allocate(), Error) << "it would have to grow";
  slab.release(first, AfterRelease::kPunch);
  EXPECT_THROW(slab.allocate(), Error) << "the blocks are somebody else's now";
  EXPECT_EQ(slab.used_bytes(), 0u);
  EXPECT_EQ(slab.slots(), 1u);

  device.set_full(false);
  EXPECT_EQ(slab.allocate(), first);
  EXPECT_TRUE(device.has_blocks(first));
}

// With bytes, and files that outlive the device.
class SlabInMemory : public testing::Test {
 protected:
  static constexpr std::uint64_t kSlotBytes = 16 << 20;  // four slots at a time

  Slab open(OpenMode mode) {
    device_ = make_memory_device(files_, {});
    return Slab(*device_, kPath, mode, Part::kPublic, kSlotBytes);
  }
  MemoryFiles::Bytes& bytes() { return (*files_)[kPath]; }
  void mark(Slot slot) { bytes()[(slot + std::size_t{1}) * kSlotBytes - 1] = std::byte{1}; }
  bool marked(Slot slot) { return bytes()[(slot + std::size_t{1}) * kSlotBytes - 1] == std::byte{1}; }

  std::shared_ptr<MemoryFiles> files_ = std::make_shared<MemoryFiles>();
  std::unique_ptr<IoDevice> device_;
};

TEST_F(SlabInMemory, PunchesADemotedSlotWhenNoCheckpointNeedsItAnyMoreAndNoOtherSlot) {
  Slab slab = open(OpenMode::kCreate);
  const Slot kept = slab.allocate();
  const Slot demoted = slab.allocate();
  const Slot reused = slab.allocate();
  for (const Slot slot : {kept, demoted, reused}) mark(slot);
  slab.retain_live();
  slab.drop_previous();

  slab.release(demoted, AfterRelease::kPunch);
  slab.release(reused, AfterRelease::kReuse);
  EXPECT_TRUE(marked(demoted)) << "a crash now would need it";
  slab.retain_live();
  EXPECT_TRUE(marked(demoted)) << "the committed one would need it";
  slab.drop_previous();
  EXPECT_FALSE(marked(demoted));
  EXPECT_TRUE(marked(kept));
  EXPECT_TRUE(marked(reused));
}

TEST_F(SlabInMemory, AdoptsWhatTheCheckpointRefersToAndFreesTheRest) {
  {
    Slab slab = open(OpenMode::kCreate);
    for (int i = 0; i < 4; ++i) mark(slab.allocate());
  }
  Slab slab = open(OpenMode::kExisting);
  slab.adopt(1);
  slab.adopt(3);
  slab.adopt_rest();
  EXPECT_EQ(slab.slots(), 4u);
  EXPECT_EQ(slab.used_bytes(), 2 * kSlotBytes);
  EXPECT_TRUE(slab.retained(1) && slab.retained(3));
  EXPECT_TRUE(marked(1) && marked(3)) << "their contents are the checkpoint";

  const Slot first = slab.allocate();
  const Slot second = slab.allocate();
  EXPECT_EQ((std::set<Slot>{first, second}), (std::set<Slot>{0, 2}));
  EXPECT_EQ(slab.slots(), 4u) << "no need to grow so far";
  slab.release(3);
  EXPECT_GE(slab.allocate(), 4u) << "the checkpoint still refers to slot 3";
}

TEST(Slab, GivesAFreedSlotItsBlocksBackAfterACrashThatMayHavePunchedIt) {
  constexpr std::uint64_t kSlotBytes = 64 << 20;
  BlockMap device(kSlotBytes);
  {
    Slab slab(device, kPath, OpenMode::kCreate, Part::kPublic, kSlotBytes);
    slab.allocate();
    slab.release(slab.allocate(), AfterRelease::kPunch);
  }
  ASSERT_FALSE(device.has_blocks(1));
  Slab slab(device, kPath, OpenMode::kExisting, Part::kPublic, kSlotBytes);
  slab.adopt(0);
  slab.adopt_rest();
  EXPECT_EQ(slab.allocate(), 1u);
  EXPECT_TRUE(device.has_blocks(1));
}

TEST_F(SlabInMemory, RefusesAFileThatWasCutShort) {
  {
    Slab slab = open(OpenMode::kCreate);
    for (int i = 0; i < 4; ++i) slab.allocate();
  }
  bytes().resize(3 * kSlotBytes + kSlotBytes / 2);  // in the middle of slot 3
  const auto opening_with = [&](Slot last) {
    return [this, last] {
      Slab slab = open(OpenMode::kExisting);
      slab.adopt(last);
      slab.adopt_rest();
    };
  };
  EXPECT_THAT(opening_with(3), ThrowsMessage<Error>(AllOf(HasSubstr(kPath.string()), HasSubstr("slot 3"),
                                                          HasSubstr("cut"), HasSubstr("Restore it"))));
  EXPECT_NO_THROW(opening_with(2)()) << "what is missing was free";
}

TEST_F(SlabInMemory, NamesAMissingFile) {
  EXPECT_THAT([this] { open(OpenMode::kExisting); }, ThrowsMessage<Error>(HasSubstr(kPath.string())));
}

TEST_F(SlabInMemory, DescribesASlotByFileNumberAndOffset) {
  const Slab slab = open(OpenMode::kCreate);
  EXPECT_EQ(slab.describe(3), "file /nvme/public.slab, slot 3 (offset 50331648)");
}

}  // namespace
}  // namespace shoal
