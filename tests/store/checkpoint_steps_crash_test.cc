// kill -9 at any moment of prepare_checkpoint() and commit_checkpoint(): what was told to be there is, and opens
// exactly.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "store/manifest.h"
#include "tests/store/crash_scenario.h"
#include "tests/store/killed_child.h"

namespace shoal::testing {
namespace {

// SHOAL_CRASH_KILLS=5000 for a long run.
unsigned kill_count() {
  const char* text = std::getenv("SHOAL_CRASH_KILLS");
  return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : 150;
}

// What must be there after the child said `last` and was killed in what came next.
void expect_what_was_told(const std::vector<CheckpointInfo>& there, std::uint64_t last) {
  ASSERT_THAT(there.size(), ::testing::AnyOf(1u, 2u));
  const std::uint64_t epoch = last / 2;
  if (last == CrashScenario::committed(epoch)) {
    ASSERT_EQ(there.front().epoch, epoch);
  } else {
    ASSERT_EQ(there.back().epoch, epoch);
  }
  if (there.size() == 2) {
    ASSERT_EQ(there.back().epoch, there.front().epoch + 1);
  }
}

TEST(CheckpointStepsCrash, LeavesTheOldOneTheNewOneOrBoth) {
  const unsigned kills = kill_count();
  constexpr unsigned kStores = 6;
  std::mt19937_64 random(43);
  unsigned done = 0;
  unsigned both = 0;
  for (unsigned s = 0; s < kStores; ++s) {
    TemporaryDirectory directory;
    const CrashScenario scenario{s + 1};
    const std::filesystem::path path = directory.path() / "store";
    StoreOptions options = scenario.options(path);
    Model model(scenario.nodes, options.layout);
    std::uint64_t model_round = 0;
    for (; done < kills * (s + 1) / kStores; ++done) {
      KilledChild child(SHOAL_CRASH_CHILD, {path.string(), std::to_string(scenario.seed)});
      std::optional<std::uint64_t> last;
      const auto hear = [&] {
        const auto heard = child.hear();
        if (heard) last = heard;
        return heard.has_value();
      };
      for (auto words = random() % 6; words > 0 && hear(); --words) {
      }
      // After a `prepared`, which comes at every second word, the commit is under way.
      std::this_thread::sleep_for(std::chrono::microseconds(random() % (done % 2 == 0 ? 2000 : 40000)));
      ASSERT_TRUE(child.kill()) << "the child ended by itself";
      while (hear()) {
      }
      if (!Manifest::exists(path)) continue;  // killed while creating: the next child starts over

      const auto there = StateStore::checkpoints(options);
      if (last) {
        ASSERT_NO_FATAL_FAILURE(expect_what_was_told(there, *last));
      }
      both += there.size() == 2 ? 1 : 0;
      const CheckpointInfo& chosen = there[random() % there.size()];
      options.open_epoch = chosen.epoch;
      auto store = StateStore::open(options);
      ASSERT_EQ(store->checkpoint_count(), chosen.epoch);
      ASSERT_EQ(store->checkpoint_note(), chosen.note);
      ASSERT_LE(store->report().slab_bytes, scenario.nodes * options.layout.state_bytes()) << "slots are lost";
      const std::uint64_t round = CrashScenario::round_after(chosen.note);
      ASSERT_GE(round, model_round);
      for (; model_round < round; ++model_round) model.run(*scenario.plan(model_round), model_round);
      ASSERT_NO_THROW(expect_equal(*store, model)) << "store " << s << ", kill " << done << ", round " << round;
      ASSERT_THAT(store->verify().problems, ::testing::IsEmpty());
      store.reset();
      ASSERT_EQ(StateStore::checkpoints(options).size(), 1u) << "the other one was to be dropped";
    }
  }
  EXPECT_EQ(done, kills);
  EXPECT_GT(both, 0u) << "no kill came between prepare and commit";
}

}  // namespace
}  // namespace shoal::testing
