#include "store/memory_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "store/error.h"

namespace shoal {
namespace {

TEST(MemoryBudget, CountsEachByteUnderItsTag) {
  MemoryBudget budget(1000);
  const MemoryCharge arena = budget.charge(MemoryTag::kArena, 600);
  const MemoryCharge cold = budget.charge(MemoryTag::kCold, 100);
  EXPECT_EQ(budget.used(), 700u);
  EXPECT_EQ(budget.available(), 300u);
  EXPECT_EQ(budget.used(MemoryTag::kArena), 600u);
  EXPECT_EQ(budget.used(MemoryTag::kCold), 100u);
  EXPECT_EQ(budget.used(MemoryTag::kIo), 0u);
}

TEST(MemoryBudget, CanBeSpentToTheLastByteAndNotBeyond) {
  MemoryBudget budget(1000);
  const MemoryCharge all = budget.charge(MemoryTag::kArena, 1000);
  EXPECT_THROW(budget.charge(MemoryTag::kIo, 1), Error);
  EXPECT_EQ(budget.used(), 1000u);
  EXPECT_EQ(budget.used(MemoryTag::kIo), 0u);
}

TEST(MemoryBudget, RefusesSizesThatWouldWrapAround) {
  MemoryBudget budget(1000);
  const MemoryCharge some = budget.charge(MemoryTag::kArena, 10);
  EXPECT_THROW(budget.charge(MemoryTag::kArena, UINT64_MAX), Error);
  EXPECT_EQ(budget.used(), 10u);
}

TEST(MemoryBudget, SaysWhatWasAskedForAndWhatIsLeft) {
  MemoryBudget budget(64 << 20);
  const MemoryCharge some = budget.charge(MemoryTag::kArena, 48 << 20);
  try {
    budget.charge(MemoryTag::kTables, 32 << 20);
    FAIL() << "32 MiB were given where 16 were left";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("32.0 MiB"), testing::HasSubstr("'tables'"),
                                             testing::HasSubstr("16.0 MiB of 64.0 MiB")));
  }
}

TEST(MemoryBudget, GetsTheBytesBackWhenAChargeDies) {
  MemoryBudget budget(1000);
  { const MemoryCharge charge = budget.charge(MemoryTag::kPlan, 1000); }
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_EQ(budget.used(MemoryTag::kPlan), 0u);
}

TEST(MemoryCharge, GivesBackOnceHoweverOftenItIsMovedAndReleased) {
  MemoryBudget budget(1000);
  MemoryCharge first = budget.charge(MemoryTag::kArena, 300);
  MemoryCharge second = std::move(first);
  EXPECT_EQ(second.bytes(), 300u);
  EXPECT_EQ(budget.used(), 300u);
  second.release();
  second.release();
  EXPECT_EQ(second.bytes(), 0u);
  EXPECT_EQ(budget.used(), 0u);
}

TEST(MemoryCharge, LetsGoOfItsOldBytesWhenAssigned) {
  MemoryBudget budget(1000);
  MemoryCharge charge = budget.charge(MemoryTag::kArena, 300);
  charge = budget.charge(MemoryTag::kIo, 200);
  EXPECT_EQ(budget.used(), 200u);
  EXPECT_EQ(budget.used(MemoryTag::kArena), 0u);
  EXPECT_EQ(budget.used(MemoryTag::kIo), 200u);
}

TEST(MemoryBudget, NeverHandsOutMoreThanItsLimitToConcurrentThreads) {
  static constexpr std::uint64_t kLimit = 10'000;
  MemoryBudget budget(kLimit);
  std::atomic<std::uint64_t> held = 0;  // never more than what is charged at that moment
  std::atomic<int> refused = 0;
  std::vector<std::jthread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&budget, &held, &refused, seed] {
      std::mt19937 random(seed);
      std::array<MemoryCharge, 8> charges;  // enough for one thread alone to reach the limit
      for (int i = 0; i < 5'000; ++i) {
        MemoryCharge& charge = charges[random() % charges.size()];
        held -= charge.bytes();
        charge.release();
        try {
          charge = budget.charge(static_cast<MemoryTag>(random() % kMemoryTagCount), random() % 5'000);
        } catch (const Error&) {
          ++refused;
        }
        EXPECT_LE(held += charge.bytes(), kLimit);
      }
      for (const MemoryCharge& charge : charges) held -= charge.bytes();
    });
  }
  threads.clear();
  EXPECT_GT(refused, 0) << "the limit was never reached: the test shows nothing";
  EXPECT_EQ(budget.used(), 0u);
  for (std::size_t i = 0; i < kMemoryTagCount; ++i) EXPECT_EQ(budget.used(static_cast<MemoryTag>(i)), 0u);
}

TEST(MemoryTag, HasANameForEveryTag) {
  for (std::size_t i = 0; i < kMemoryTagCount; ++i) EXPECT_NE(name(static_cast<MemoryTag>(i)), "?");
}

}  // namespace
}  // namespace shoal
