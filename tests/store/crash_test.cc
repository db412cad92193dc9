// kill -9 at any moment loses nothing that a checkpoint holds, and brings back nothing that it does not.
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
  return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : 200;
}

TEST(Crash, LeavesExactlyTheLastCheckpoint) {
  const unsigned kills = kill_count();
  constexpr unsigned kStores = 10;
  std::mt19937_64 random(42);
  unsigned done = 0;
  std::uint64_t checkpoints_seen = 0;
  for (unsigned s = 0; s < kStores; ++s) {
    TemporaryDirectory directory;
    const CrashScenario scenario{s + 1};
    const std::filesystem::path path = directory.path() / "store";
    const StoreOptions options = scenario.options(path);
    Model model(scenario.nodes, options.layout);
    std::uint64_t model_round = 0;
    for (; done < kills * (s + 1) / kStores; ++done) {
      KilledChild child(SHOAL_CRASH_CHILD, {path.string(), std::to_string(scenario.seed)});
      // Some while they open or create, most somewhere between or in checkpoints.
      for (auto heard = random() % 6; heard > 0 && child.hear(); --heard) {
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 40000));
      ASSERT_TRUE(child.kill()) << "the child ended by itself";
      if (!Manifest::exists(path)) continue;  // killed while creating: the next child starts over

      auto store = StateStore::open(options);
      const std::uint64_t round = CrashScenario::round_after(store->checkpoint_note());
      ASSERT_GE(round, model_round) << "an acknowledged checkpoint is gone";
      checkpoints_seen += round > model_round ? 1 : 0;
      for (; model_round < round; ++model_round) model.run(*scenario.plan(model_round), model_round);
      ASSERT_NO_THROW(expect_equal(*store, model)) << "store " << s << ", kill " << done << ", round " << round;
      if (done % 8 == 0) {
        ASSERT_THAT(store->verify().problems, ::testing::IsEmpty());
      }
    }
  }
  EXPECT_EQ(done, kills);
  EXPECT_GT(checkpoints_seen, kills / 8) << "the children are killed before they do anything";
}

}  // namespace
}  // namespace shoal::testing
