#include "store/frame_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "store/arena.h"

namespace shoal {
namespace {

constexpr NodeId kNodes = 40;

// An arena of records of one block, and the cache over it.
class FrameCacheTest : public testing::Test {
 protected:
  FrameCacheTest() { arena_.split(36, 28); }

  static ArenaOptions of_64_blocks() {
    ArenaOptions options;
    options.bytes = 64 * kBlockBytes;
    options.huge_pages = Want::kNo;
    return options;
  }

  // A frame with a record that may be evicted.
  FrameId resident(Part part, NodeId node, PlanTime next_use) {
    const FrameId id = cache_.bind(part, node, false);
    cache_.set_next_use(id, next_use);
    cache_.became_ready(id);
    cache_.unpin(id);
    return id;
  }

  StateLayout layout_{{{"public", DType::kFloat32, {1}, Part::kPublic}}};
  MemoryBudget budget_{1 << 20};
  Arena arena_{of_64_blocks(), layout_, budget_};
  FrameCache cache_{arena_, kNodes};
};

TEST_F(FrameCacheTest, NamesTheRecordThatIsUsedLastAsTheVictim) {
  resident(Part::kPublic, 0, 10);
  const FrameId farthest = resident(Part::kPublic, 1, 30);
  resident(Part::kPublic, 2, 20);
  resident(Part::kPrivate, 3, 99);
  EXPECT_EQ(cache_.victim(Part::kPublic), farthest);
  cache_.set_next_use(farthest, 5);
  EXPECT_EQ(cache_[cache_.victim(Part::kPublic)].node, 2u);
}

TEST_F(FrameCacheTest, PrefersARecordThatNoPlanNamesAsTheVictim) {
  resident(Part::kPublic, 0, 1'000'000'000'000);
  const FrameId unknown = resident(Part::kPublic, 1, kUnknownTime);
  EXPECT_EQ(cache_.victim(Part::kPublic), unknown);
}

TEST_F(FrameCacheTest, HasNoVictimWhileAllAreLoadingWritingOrPinned) {
  const FrameId loading = cache_.bind(Part::kPublic, 0, false);
  cache_.set_next_use(loading, 10);
  cache_.unpin(loading);
  const FrameId pinned = resident(Part::kPublic, 1, 20);
  cache_.pin(pinned);
  const FrameId writing = resident(Part::kPublic, 2, 30);
  cache_.begin_writing(writing);
  EXPECT_EQ(cache_.victim(Part::kPublic), kNoFrame);

  cache_.became_ready(loading);
  EXPECT_EQ(cache_.victim(Part::kPublic), loading);
  cache_.unpin(pinned);
  cache_.became_ready(writing);
  EXPECT_EQ(cache_.victim(Part::kPublic), writing);
}

TEST_F(FrameCacheTest, KeepsTheNextVersionApartUntilTheFlip) {
  const FrameId current = resident(Part::kPublic, 4, 1);
  const FrameId next = cache_.bind(Part::kPublic, 4, true);
  EXPECT_EQ(cache_.current(Part::kPublic, 4), current);
  EXPECT_EQ(cache_.next(4), next);
  cache_.empty(current);
  EXPECT_EQ(cache_.current(Part::kPublic, 4), kNoFrame);
  cache_.flip(4);
  EXPECT_EQ(cache_.current(Part::kPublic, 4), next);
  EXPECT_EQ(cache_.next(4), kNoFrame);
  EXPECT_FALSE(cache_[next].next);
}

TEST_F(FrameCacheTest, DoesNotFindAScratchFrameUnderItsNode) {
  const FrameId current = resident(Part::kPublic, 4, 1);
  const FrameId scratch = cache_.bind_scratch(Part::kPublic, 4);
  ASSERT_NE(scratch, kNoFrame);
  EXPECT_EQ(cache_.current(Part::kPublic, 4), current);
  cache_.unpin(scratch);
  cache_.empty(scratch);
  EXPECT_EQ(cache_.current(Part::kPublic, 4), current);
}

TEST_F(FrameCacheTest, CountsTheFramesThatOnlyOtherRanksHavePinned) {
  const FrameId id = resident(Part::kPublic, 4, 1);
  cache_.pin(id);
  EXPECT_EQ(cache_.lent(), 0u);
  cache_.lend(id);
  EXPECT_EQ(cache_.lent(), 1u);
  cache_.pin(id);  // a second one
  cache_.lend(id);
  EXPECT_EQ(cache_.lent(), 1u);
  cache_.pin(id);  // a step of this rank
  EXPECT_EQ(cache_.lent(), 0u);
  cache_.take_back(id);
  EXPECT_EQ(cache_.lent(), 0u);
  cache_.unpin(id);
  EXPECT_EQ(cache_.lent(), 1u);
  EXPECT_EQ(cache_.victim(Part::kPublic), kNoFrame);
  cache_.take_back(id);
  EXPECT_EQ(cache_.lent(), 0u);
  EXPECT_EQ(cache_.victim(Part::kPublic), id);
}

TEST_F(FrameCacheTest, ListsARecordThatIsThereAndTellsOneThatStayedFromOneThatCameBack) {
  std::vector<DirectoryEntry> directory(kNodes);
  FrameCache cache(arena_, kNodes, directory);
  std::vector<std::uint64_t> places;
  for (int repeat = 0; repeat < 2; ++repeat) {
    const FrameId id = cache.bind(Part::kPublic, 7, false);
    cache[id].version = 3;
    EXPECT_EQ(directory[7].version, 0u) << "it is on its way";
    cache.became_ready(id);
    EXPECT_EQ(directory[7].version, 3u);
    places.push_back(directory[7].place);
    EXPECT_EQ(arena_.region().data() + offset_of(places.back()), cache[id].record);
    cache.begin_writing(id);
    cache.became_ready(id);
    EXPECT_EQ(directory[7].place, places.back()) << "it stayed";
    cache.unpin(id);
    cache.empty(id);
    EXPECT_EQ(directory[7].version, 0u);
  }
  EXPECT_EQ(offset_of(places[0]), offset_of(places[1])) << "the same frame";
  EXPECT_NE(places[0], places[1]);
}

TEST_F(FrameCacheTest, MarksARecordThatStaysForTheRoundAndKeepsItFromBeingEvicted) {
  std::vector<DirectoryEntry> directory(kNodes);
  FrameCache cache(arena_, kNodes, directory);
  const FrameId id = cache.bind(Part::kPublic, 7, false);
  cache[id].version = 3;
  cache.became_ready(id);
  cache.unpin(id);
  EXPECT_EQ(mark_of(directory[7].place), 0u);
  EXPECT_EQ(cache.victim(Part::kPublic), id);
  cache.stay(id, 55);
  EXPECT_EQ(directory[7].version, 3u);
  EXPECT_EQ(mark_of(directory[7].place), 55u);
  EXPECT_EQ(arena_.region().data() + offset_of(directory[7].place), cache[id].record);
  EXPECT_EQ(cache.victim(Part::kPublic), kNoFrame);
  cache.stay_no_more(id);
  EXPECT_EQ(directory[7].version, 3u);
  EXPECT_EQ(mark_of(directory[7].place), 0u);
  EXPECT_EQ(cache.victim(Part::kPublic), id);
}

TEST(RoundMark, IsNeverZeroAndFitsBelowABlock) {
  for (const std::uint64_t round : {0UL, 1UL, 4094UL, 4095UL, 1'000'000'007UL}) {
    EXPECT_GT(round_mark(round), 0u);
    EXPECT_LT(round_mark(round), kBlockBytes);
    EXPECT_NE(round_mark(round), round_mark(round + 1));
  }
}

// What each frame holds, told in the simplest way: a map that is searched from end to end.
struct Held {
  Part part;
  NodeId node;
  bool next;
  bool scratch;
  bool dead = false;  // an old version on its way out, which the flip has left behind
  Phase phase = Phase::kLoading;
  int pins = 1;
  PlanTime next_use = kUnknownTime;
};

class Model {
 public:
  std::map<FrameId, Held> frames;

  FrameId find(Part part, NodeId node, bool next) const {
    for (const auto& [id, held] : frames) {
      if (held.part == part && held.node == node && held.next == next && !held.scratch && !held.dead) return id;
    }
    return kNoFrame;
  }
  std::size_t count(Part part) const {
    std::size_t count = 0;
    for (const auto& [id, held] : frames) count += held.part == part ? 1 : 0;
    return count;
  }
  static bool evictable(const Held& held) { return held.phase == Phase::kReady && held.pins == 0; }
  // A random frame of which this is true; kNoFrame if there is none.
  FrameId pick(std::mt19937& random, const std::function<bool(const Held&)>& wanted) const {
    std::vector<FrameId> found;
    for (const auto& [id, held] : frames) {
      if (wanted(held)) found.push_back(id);
    }
    return found.empty() ? kNoFrame : found[random() % found.size()];
  }
};

void expect_same(FrameCache& cache, const Model& model) {
  for (const Part part : kParts) {
    const FrameId victim = cache.victim(part);
    PlanTime farthest = 0;
    bool any = false;
    for (const auto& [id, held] : model.frames) {
      if (held.part != part || !Model::evictable(held)) continue;
      any = true;
      farthest = std::max(farthest, held.next_use);
    }
    ASSERT_EQ(victim != kNoFrame, any);
    if (any) {
      ASSERT_TRUE(model.frames.contains(victim));
      const Held& chosen = model.frames.at(victim);
      ASSERT_EQ(chosen.part, part);
      ASSERT_TRUE(Model::evictable(chosen));
      ASSERT_EQ(chosen.next_use, farthest);
    }
  }
  std::map<std::tuple<Part, NodeId, bool>, FrameId> found;
  for (const auto& [id, held] : model.frames) {
    if (!held.scratch && !held.dead) found[{held.part, held.node, held.next}] = id;
  }
  const auto find = [&](Part part, NodeId node, bool next) {
    const auto place = found.find({part, node, next});
    return place == found.end() ? kNoFrame : place->second;
  };
  for (NodeId node = 0; node < kNodes; ++node) {
    for (const Part part : kParts) ASSERT_EQ(cache.current(part, node), find(part, node, false));
    ASSERT_EQ(cache.next(node), find(Part::kPublic, node, true));
  }
}

TEST_F(FrameCacheTest, AgreesWithASearchFromEndToEndAfterAnyOperations) {
  std::mt19937 random(1);
  Model model;
  int victims = 0;
  for (int i = 0; i < 30000; ++i) {
    const Part part = random() % 2 == 0 ? Part::kPublic : Part::kPrivate;
    const auto node = static_cast<NodeId>(random() % kNodes);
    const bool next = part == Part::kPublic && random() % 3 == 0;
    switch (random() % 14) {
      case 0:
      case 1: {
        const bool scratch = random() % 8 == 0;
        if (!scratch && model.find(part, node, next) != kNoFrame) break;
        const bool room = model.count(part) < arena_.frames(part);
        const FrameId id = scratch ? cache_.bind_scratch(part, node) : cache_.bind(part, node, next);
        ASSERT_EQ(id != kNoFrame, room);
        if (id == kNoFrame) break;
        ASSERT_FALSE(model.frames.contains(id)) << "the frame is in use";
        ASSERT_EQ(cache_[id].node, node);
        ASSERT_EQ(cache_[id].part, part);
        model.frames.emplace(id, Held{part, node, next && !scratch, scratch});
        break;
      }
      case 2: {
        const FrameId id = model.pick(random, [](const Held&) { return true; });
        if (id == kNoFrame) break;
        cache_.pin(id);
        ++model.frames.at(id).pins;
        break;
      }
      case 3:
      case 4:
      case 10:
      case 11: {
        const FrameId id = model.pick(random, [](const Held& held) { return held.pins > 0; });
        if (id == kNoFrame) break;
        cache_.unpin(id);
        --model.frames.at(id).pins;
        break;
      }
      case 5:
      case 12:
      case 13: {
        const FrameId id = model.pick(random, [](const Held& held) { return held.phase != Phase::kReady; });
        if (id == kNoFrame) break;
        cache_.became_ready(id);
        model.frames.at(id).phase = Phase::kReady;
        break;
      }
      case 6: {
        const FrameId id = model.pick(random, [](const Held&) { return true; });
        if (id == kNoFrame) break;
        const PlanTime time = random() % 5 == 0 ? kUnknownTime : random() % 200;
        cache_.set_next_use(id, time);
        model.frames.at(id).next_use = time;
        break;
      }
      case 7: {
        const FrameId id = model.pick(random, [](const Held& held) { return held.phase == Phase::kReady; });
        if (id == kNoFrame) break;
        cache_.begin_writing(id);
        model.frames.at(id).phase = Phase::kWriting;
        break;
      }
      case 8: {  // as eviction does: the victim, if there is one, or whatever nobody holds
        FrameId id = cache_.victim(part);
        victims += id != kNoFrame ? 1 : 0;
        if (id == kNoFrame) id = model.pick(random, [](const Held& held) { return held.pins == 0; });
        if (id == kNoFrame) break;
        cache_.empty(id);
        model.frames.erase(id);
        break;
      }
      case 9: {
        const FrameId current = model.find(Part::kPublic, node, false);
        if (model.find(Part::kPublic, node, true) == kNoFrame) break;
        if (current != kNoFrame) {
          if (model.frames.at(current).phase != Phase::kWriting)
            break;  // an old version goes before, unless it is written
          cache_[current].dead = true;
          model.frames.at(current).dead = true;
        }
        const FrameId flipped = model.find(Part::kPublic, node, true);
        cache_.flip(node);
        model.frames.at(flipped).next = false;
        break;
      }
    }
    ASSERT_NO_FATAL_FAILURE(expect_same(cache_, model)) << "after operation " << i;
  }
  EXPECT_GT(victims, 100) << "hardly anything was ever evictable: the test shows nothing";
}

}  // namespace
}  // namespace shoal
