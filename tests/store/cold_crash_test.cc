// kill -9 at any moment leaves a cold tier at its last commit, or at the one that was being made.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "store/cold_tier.h"
#include "store/error.h"
#include "tests/store/cold_scenario.h"
#include "tests/store/killed_child.h"
#include "tests/store/temporary_directory.h"

namespace shoal::testing {
namespace {

// SHOAL_COLD_KILLS=5000 for a long run.
int kill_count() {
  const char* text = std::getenv("SHOAL_COLD_KILLS");
  return text != nullptr ? std::atoi(text) : 50;
}

TEST(ColdCrash, LeavesTheOldOrTheNewCommit) {
  const int kills = kill_count();
  const TemporaryDirectory parent(fast_directory());
  const std::filesystem::path directory = parent.path() / "cold";
  MemoryBudget budget{1 << 30};
  std::mt19937 random(1);
  std::uint64_t acknowledged = 0;
  for (int kill = 0; kill < kills; ++kill) {
    KilledChild child(SHOAL_COLD_CRASH_CHILD, {directory.string()});
    std::optional<std::uint64_t> number;
    if (kill % 4 != 0) {
      number = child.hear();
      ASSERT_TRUE(number);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60000));
    ASSERT_TRUE(child.kill()) << "the child ended by itself";
    for (; number || (number = child.hear()); number.reset()) acknowledged = std::max(acknowledged, *number);

    if (!std::filesystem::exists(directory / "CURRENT")) continue;
    ColdTier tier({directory, kColdMinimumBytes, ColdAccess::kOpen}, budget);
    tier.verify();
    const auto found = tier.value("number");
    const std::uint64_t at = found ? std::stoull(*found) : 0;
    ASSERT_GE(at, acknowledged);
    ASSERT_LE(at, acknowledged + 1);
    acknowledged = at;
    if (at == 0) continue;
    for (const auto& [key, value] : crash_values(at)) ASSERT_EQ(tier.value(key), value);
    const Epoch epoch = static_cast<Epoch>(at);
    tier.erase_epochs_after(epoch);
    for (NodeId node = 0; node < kCrashNodes; ++node) {
      Record record(kCrashRecordBytes);
      tier.get(epoch, Part::kPublic, node, record);
      ASSERT_EQ(record, crash_record(at, node));
      ASSERT_THROW(tier.get(epoch + 1, Part::kPublic, node, record), Error);
    }
  }
  EXPECT_GT(acknowledged, static_cast<std::uint64_t>(kills) / 2) << "the kills came too early to test anything";
}

}  // namespace
}  // namespace shoal::testing
