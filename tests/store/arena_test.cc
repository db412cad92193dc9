#include "store/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "store/error.h"
#include "store/record.h"
#include "tests/store/block_buffer.h"

namespace shoal {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Records of exactly so many blocks.
StateLayout layout_of_blocks(std::uint64_t public_blocks, std::uint64_t private_blocks) {
  const auto filling = [](std::uint64_t blocks) {
    return std::vector<std::int64_t>{static_cast<std::int64_t>(blocks * kBlockBytes - sizeof(RecordHeader))};
  };
  return StateLayout({{"public", DType::kUInt8, filling(public_blocks), Part::kPublic},
                      {"private", DType::kUInt8, filling(private_blocks), Part::kPrivate}});
}

ArenaOptions of_blocks(std::uint64_t blocks) {
  ArenaOptions options;
  options.bytes = blocks * kBlockBytes;
  options.huge_pages = Want::kNo;
  return options;
}

std::vector<Frame> take_all(Arena& arena, Part part) {
  std::vector<Frame> frames;
  while (Frame frame = arena.take(part)) frames.push_back(std::move(frame));
  return frames;
}

class ArenaTest : public testing::Test {
 protected:
  MemoryBudget budget_{1 << 30};
};

TEST_F(ArenaTest, CarvesPublicFramesFromTheFrontAndPrivateOnesFromTheBack) {
  const StateLayout layout = layout_of_blocks(3, 2);
  Arena arena(of_blocks(20), layout, budget_);
  arena.split(4, 3);
  const std::vector<Frame> published = take_all(arena, Part::kPublic);
  const std::vector<Frame> own = take_all(arena, Part::kPrivate);
  ASSERT_THAT(published, SizeIs(4));
  ASSERT_THAT(own, SizeIs(3));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(published[i].data() - arena.region().data(), i * 3 * kBlockBytes);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(own[i].data() - arena.region().data(), (20 - (i + 1) * 2) * kBlockBytes);
  }
}

// Any frames held at one time, whatever was taken, let go and split before, are apart from each other, block aligned,
// inside the region, and keep what was written into them.
TEST_F(ArenaTest, NeverGivesOutTheSameBytesTwice) {
  std::mt19937 random(1);
  for (int repeat = 0; repeat < 50; ++repeat) {
    const std::uint64_t blocks[] = {1 + random() % 4, 1 + random() % 4};
    const StateLayout layout = layout_of_blocks(blocks[0], blocks[1]);
    Arena arena(of_blocks(20 + random() % 40), layout, budget_);
    std::vector<std::pair<Frame, std::byte>> held;
    std::byte* const begin = arena.region().data();
    for (int i = 0; i < 200; ++i) {
      const Part part = random() % 2 == 0 ? Part::kPublic : Part::kPrivate;
      const auto choice = random() % 20;
      if (choice == 0) {
        // As far as the frames in use let the line be moved.
        std::uint32_t least[] = {0, 0};
        for (const auto& [frame, mark] : held) {
          least[index(frame.part())] = std::max(least[index(frame.part())], frame.number() + 1);
        }
        const std::uint64_t spare = arena.bytes() / kBlockBytes - least[0] * blocks[0] - least[1] * blocks[1];
        const std::uint64_t more_public = random() % (spare / blocks[0] + 1);
        const std::uint64_t more_private = random() % ((spare - more_public * blocks[0]) / blocks[1] + 1);
        arena.split(static_cast<std::uint32_t>(least[0] + more_public),
                    static_cast<std::uint32_t>(least[1] + more_private));
      } else if (choice < 13) {
        const bool any_free = arena.free_frames(part) > 0;
        Frame frame = arena.take(part);
        ASSERT_EQ(static_cast<bool>(frame), any_free);
        if (!frame) continue;
        EXPECT_EQ(frame.part(), part);
        EXPECT_EQ((frame.data() - begin) % static_cast<std::ptrdiff_t>(kBlockBytes), 0);
        const auto mark = static_cast<std::byte>(random());
        std::memset(frame.data(), static_cast<int>(mark), layout.record_bytes(part));
        held.emplace_back(std::move(frame), mark);
      } else if (!held.empty()) {
        std::swap(held[random() % held.size()], held.back());
        held.pop_back();
      }
      std::map<std::byte*, std::byte*> taken;  // begin -> end
      std::uint32_t count[] = {0, 0};
      for (const auto& [frame, mark] : held) {
        const std::uint64_t bytes = layout.record_bytes(frame.part());
        taken[frame.data()] = frame.data() + bytes;
        ++count[index(frame.part())];
        ASSERT_TRUE(std::all_of(frame.data(), frame.data() + bytes,
                                [wanted = mark](std::byte byte) { return byte == wanted; }));
      }
      std::byte* free_from = begin;
      for (const auto& [from, to] : taken) {
        ASSERT_GE(from, free_from) << "two frames overlap";
        free_from = to;
      }
      ASSERT_LE(free_from, begin + arena.bytes());
      for (const Part each : kParts) ASSERT_EQ(arena.free_frames(each) + count[index(each)], arena.frames(each));
    }
  }
}

TEST_F(ArenaTest, MovesTheLineBetweenThePartsWhenSplitAgain) {
  Arena arena(of_blocks(12), layout_of_blocks(1, 2), budget_);
  EXPECT_EQ(arena.most_frames(Part::kPublic), 12u);
  EXPECT_EQ(arena.most_frames(Part::kPrivate), 6u);
  arena.split(12, 0);
  EXPECT_THAT(take_all(arena, Part::kPublic), SizeIs(12));
  EXPECT_THAT(take_all(arena, Part::kPrivate), IsEmpty());
  arena.split(2, 5);
  EXPECT_THAT(take_all(arena, Part::kPublic), SizeIs(2));
  EXPECT_THAT(take_all(arena, Part::kPrivate), SizeIs(5));
  arena.split(0, 6);
  EXPECT_THAT(take_all(arena, Part::kPublic), IsEmpty());
  EXPECT_THAT(take_all(arena, Part::kPrivate), SizeIs(6));
}

TEST_F(ArenaTest, TakesTheFramesInUseAlongWhenTheLineMoves) {
  Arena arena(of_blocks(12), layout_of_blocks(1, 1), budget_);
  arena.split(6, 6);
  Frame kept = arena.take(Part::kPublic);
  std::memset(kept.data(), 9, kBlockBytes);
  arena.split(2, 10);
  EXPECT_EQ(arena.free_frames(Part::kPublic), 1u);
  EXPECT_EQ(kept.data()[kBlockBytes - 1], std::byte{9});
  kept.release();
  EXPECT_EQ(arena.free_frames(Part::kPublic), 2u);
}

TEST_F(ArenaTest, LeavesTheRestOfTheRegionUntouchedByAPopulationThatFits) {
  Arena arena(of_blocks(64), layout_of_blocks(1, 1), budget_);
  arena.split(32, 32);
  for (int i = 0; i < 100; ++i) {
    const Frame first = arena.take(Part::kPublic);
    const Frame second = arena.take(Part::kPublic);
    EXPECT_LT(std::max(first.number(), second.number()), 2u);
  }
}

TEST_F(ArenaTest, GetsAFrameBackOnceHoweverOftenItIsMovedAndReleased) {
  Arena arena(of_blocks(4), layout_of_blocks(1, 1), budget_);
  arena.split(2, 2);
  {
    Frame first = arena.take(Part::kPublic);
    Frame second = std::move(first);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is the question
    EXPECT_EQ(arena.free_frames(Part::kPublic), 1u);
    second = arena.take(Part::kPublic);  // lets go of the one it had
    EXPECT_EQ(arena.free_frames(Part::kPublic), 1u);
    second.release();
    second.release();
    EXPECT_EQ(arena.free_frames(Part::kPublic), 2u);
  }
  EXPECT_EQ(arena.free_frames(Part::kPublic), 2u);
}

TEST_F(ArenaTest, UsesTheRegionItsOwnerHandsInAndLeavesItToTheOwner) {
  BlockBuffer memory(6 * kBlockBytes);
  {
    ArenaOptions options = of_blocks(1000);                       // not looked at
    options.region = memory.span().first(5 * kBlockBytes + 100);  // not whole blocks: as MPI may give it
    Arena arena(options, layout_of_blocks(1, 1), budget_);
    EXPECT_EQ(arena.bytes(), 5 * kBlockBytes);
    EXPECT_EQ(budget_.used(MemoryTag::kArena), 5 * kBlockBytes);
    EXPECT_THAT(arena.modes(), IsEmpty());
    arena.split(2, 3);
    for (const Part part : kParts) {
      for (const Frame& frame : take_all(arena, part)) std::memset(frame.data(), 1, kBlockBytes);
    }
  }
  EXPECT_EQ(std::count(memory.span().begin(), memory.span().end(), std::byte{1}), 5 * kBlockBytes);
  memory.fill(std::byte{2});
}

TEST_F(ArenaTest, IsChargedToTheBudgetWhileItLives) {
  {
    const Arena arena(of_blocks(10), layout_of_blocks(1, 1), budget_);
    EXPECT_EQ(budget_.used(MemoryTag::kArena), 10 * kBlockBytes);
  }
  EXPECT_EQ(budget_.used(), 0u);
  MemoryBudget small(10 * kBlockBytes - 1);
  EXPECT_THROW(Arena(of_blocks(10), layout_of_blocks(1, 1), small), Error);
}

TEST_F(ArenaTest, HandsOutTicketsWithoutMemoryWhenItOnlyCounts) {
  Arena arena(of_blocks(10), layout_of_blocks(1, 1), budget_);
  arena.count_only();
  arena.split(4, 6);
  const std::vector<Frame> frames = take_all(arena, Part::kPublic);
  ASSERT_THAT(frames, SizeIs(4));
  EXPECT_EQ(frames[0].data(), nullptr);
  EXPECT_EQ(arena.bytes(), 10 * kBlockBytes);
  EXPECT_EQ(budget_.used(MemoryTag::kArena), 10 * kBlockBytes) << "resident bytes of the slabs are charged here";
}

// The flags the kernel shows for the mapping that holds this address; empty where it shows none.
std::string mapping_flags(const std::byte* address) {
  std::ifstream file("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    unsigned long from = 0;
    unsigned long to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) inside = from <= wanted && wanted < to;
    if (inside && line.starts_with("VmFlags:")) return line;
  }
  return {};
}

TEST_F(ArenaTest, SaysWhetherItHasTheHugePagesItAskedFor) {
  ArenaOptions options = of_blocks(2048);
  options.huge_pages = Want::kTry;
  const Arena arena(options, layout_of_blocks(1, 1), budget_);
  ASSERT_THAT(arena.modes(), SizeIs(1));
  const ModeReport& mode = arena.modes()[0];
  EXPECT_EQ(mode.what, "huge pages");
  EXPECT_EQ(mode.requested, "transparent");
  EXPECT_EQ(mode.degraded(), !mode.reason.empty());
  if (const std::string flags = mapping_flags(arena.region().data()); !mode.degraded() && !flags.empty()) {
    EXPECT_THAT(flags, HasSubstr(" hg"));
  }
}

TEST_F(ArenaTest, HasNothingToReportWhenNothingWasAskedFor) {
  const Arena arena(of_blocks(4), layout_of_blocks(1, 1), budget_);
  EXPECT_THAT(arena.modes(), IsEmpty());
}

TEST_F(ArenaTest, SaysThatAndWhyItsPagesCouldNotBeLocked) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers turn mlock into a success that does nothing";
#endif
  // In a process of its own, which gives up the right to lock memory. What it writes to stderr is the report.
  const auto without_the_right = [] {
    const rlimit none = {0, 0};
    if (::setrlimit(RLIMIT_MEMLOCK, &none) != 0 || (::geteuid() == 0 && ::setuid(65534) != 0)) ::_exit(2);
    ArenaOptions options = of_blocks(16);
    options.page_lock = Want::kTry;
    MemoryBudget budget(1 << 20);
    const Arena arena(options, layout_of_blocks(1, 1), budget);
    for (const ModeReport& mode : arena.modes()) {
      std::fprintf(stderr, "%s: %s, %s: %s\n", mode.what.c_str(), mode.requested.c_str(), mode.actual.c_str(),
                   mode.reason.c_str());
    }
    ::_exit(0);
  };
  EXPECT_EXIT(without_the_right(), testing::ExitedWithCode(0),
              "page lock: locked, not locked: mlock: .*errno.*ulimit -l");
}

}  // namespace
}  // namespace shoal
