#include "store/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <regex>
#include <string>

#include "store/error.h"
#include "store/state_store.h"
#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

StoreOptions options_of(NodeId nodes, std::int64_t public_floats, std::int64_t private_floats) {
  StoreOptions options;
  options.nodes = nodes;
  options.layout = StateLayout({{"public", DType::kFloat32, {public_floats}, Part::kPublic},
                                {"private", DType::kFloat32, {private_floats}, Part::kPrivate}});
  return options;
}

// From a handful of tiny records to a million LeNet-5 or some thousand ResNet-18, and any settings.
StoreOptions random_options(std::mt19937_64& random) {
  const auto up_to = [&](double most) {
    return std::exp(std::uniform_real_distribution<double>(0, std::log(most))(random));
  };
  StoreOptions options = options_of(static_cast<NodeId>(up_to(1e6)), static_cast<std::int64_t>(up_to(3e6)),
                                    static_cast<std::int64_t>(up_to(6e6)) - 1);
  options.max_reads_per_step = static_cast<std::size_t>(up_to(100)) - 1;
  options.rounds_ahead = static_cast<unsigned>(1 + random() % 4);
  if (random() % 2 == 0) options.max_reads_per_round = static_cast<std::uint64_t>(up_to(1e7));
  if (random() % 2 == 0) options.prefetch_bytes = static_cast<std::uint64_t>(up_to(1e9));
  if (random() % 2 == 0) {
    options.serving_frames = static_cast<unsigned>(up_to(8));
    options.guests = static_cast<NodeId>(up_to(1e6));
  }
  if (random() % 2 == 0) options.cold_memory_bytes = (std::uint64_t{4} << 20) + random() % (128 << 20);
  return options;
}

std::uint64_t least_arena(const MemoryPlan& plan, const StateLayout& layout) {
  return plan.least_public * layout.record_bytes(Part::kPublic) +
         plan.least_private * layout.record_bytes(Part::kPrivate);
}

TEST(MemoryPlan, NeverPlansForMoreThanTheRamItWasGiven) {
  std::mt19937_64 random(1);
  for (int repeat = 0; repeat < 3000; ++repeat) {
    StoreOptions options = random_options(random);
    const std::uint64_t least = MemoryPlan::minimum(options);
    options.ram_bytes = least + random() % (repeat % 2 == 0 ? least : std::uint64_t{100} << 20);
    const MemoryPlan plan = MemoryPlan::for_options(options);
    ASSERT_LE(plan.total(), options.ram_bytes) << options.nodes << " nodes, minimum " << least;
    ASSERT_GE(plan.arena, least_arena(plan, options.layout)) << "no step could run";
    ASSERT_EQ(plan.arena % kBlockBytes, 0u);
    ASSERT_GE(plan.flights, 2u);
  }
}

TEST(MemoryPlan, HasAStepForEveryWorkerAndOneToReadAheadHoweverLargeRecordsAre) {
  StoreOptions options;
  options.layout = StateLayout({{"weights", DType::kFloat32, {11'000'000}, Part::kPublic},
                                {"moments", DType::kFloat32, {22'000'000}, Part::kPrivate}});
  options.nodes = 500;
  options.max_reads_per_step = 8;
  for (const unsigned workers : {1U, 2U, 16U, 100U}) {
    options.workers = workers;
    options.ram_bytes = MemoryPlan::resident_ram(options) / 2;
    const MemoryPlan plan = MemoryPlan::for_options(options);
    EXPECT_GT(plan.flights, workers);
    EXPECT_GE(plan.prefetch, (workers + 1) * options.layout.state_bytes());
  }
}

TEST(MemoryPlan, LeavesNextToNothingUnused) {
  std::mt19937_64 random(2);
  int streaming = 0;
  for (int repeat = 0; repeat < 1000; ++repeat) {
    StoreOptions options = random_options(random);
    options.ram_bytes = MemoryPlan::minimum(options) * 2 + random() % (std::uint64_t{1} << 30);
    const MemoryPlan plan = MemoryPlan::for_options(options);
    if (plan.resident) continue;
    ++streaming;
    ASSERT_GE(plan.total() + options.ram_bytes / 100 + 2 * kBlockBytes, options.ram_bytes);
  }
  EXPECT_GT(streaming, 100);
}

TEST(MemoryPlan, OfAPopulationThatFitsTakesWhatItNeedsWhateverItIsGiven) {
  std::mt19937_64 random(4);
  for (int repeat = 0; repeat < 1000; ++repeat) {
    StoreOptions options = random_options(random);
    if (repeat % 2 == 0) options.old_versions = random() % (options.nodes + 1);
    const std::uint64_t enough = MemoryPlan::resident_ram(options);
    ASSERT_GE(enough, MemoryPlan::minimum(options));
    options.ram_bytes = enough;
    const MemoryPlan plan = MemoryPlan::for_options(options);
    ASSERT_TRUE(plan.resident);
    ASSERT_EQ(plan.total(), enough);
    const std::uint64_t old = options.old_versions.value_or(std::uint64_t{options.nodes} + options.guests);
    ASSERT_GE(plan.arena, (options.nodes + old) * options.layout.record_bytes(Part::kPublic) +
                              options.nodes * options.layout.record_bytes(Part::kPrivate));
    for (const std::uint64_t more : {enough + 1, 3 * enough, enough + (std::uint64_t{1} << 50)}) {
      options.ram_bytes = more;
      const MemoryPlan same = MemoryPlan::for_options(options);
      ASSERT_EQ(same.total(), enough);
      ASSERT_EQ(same.arena, plan.arena);
      ASSERT_EQ(same.flights, plan.flights);
      ASSERT_EQ(same.prefetch, plan.prefetch);
    }
    options.ram_bytes = std::max(enough - 1, MemoryPlan::minimum(options));
    ASSERT_EQ(MemoryPlan::for_options(options).resident, options.ram_bytes == enough);
  }
}

TEST(MemoryPlan, HasRoomForAStepWithAllItsReads) {
  StoreOptions options = options_of(1000, 61706, 61706);
  for (const std::size_t reads : {0u, 1u, 8u, 99u}) {
    options.max_reads_per_step = reads;
    options.ram_bytes = MemoryPlan::minimum(options);
    const MemoryPlan plan = MemoryPlan::for_options(options);
    EXPECT_EQ(plan.least_public, reads + 2) << "what it reads, its own current and its next version";
    EXPECT_EQ(plan.least_private, 1u);
    EXPECT_GE(plan.arena, least_arena(plan, options.layout));
  }
}

TEST(MemoryPlan, NamesTheMinimumAndThatVeryNumberWorks) {
  std::mt19937_64 random(3);
  for (int repeat = 0; repeat < 1000; ++repeat) {
    StoreOptions options = random_options(random);
    std::uint64_t named = 0;
    try {
      options.ram_bytes = random() % MemoryPlan::minimum(options);
      MemoryPlan::for_options(options);
      FAIL() << options.ram_bytes << " bytes were taken as enough";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
      const std::string message = error.what();
      std::smatch match;
      ASSERT_TRUE(std::regex_search(message, match, std::regex("at least .* \\(([0-9]+) bytes\\)"))) << message;
      named = std::stoull(match[1]);
    }
    options.ram_bytes = named - 1;
    ASSERT_THROW(MemoryPlan::for_options(options), Error) << "it is not the minimum";
    options.ram_bytes = named;
    ASSERT_LE(MemoryPlan::for_options(options).total(), named)
        << options.nodes << " nodes, records of " << options.layout.record_bytes(Part::kPublic) << " and "
        << options.layout.record_bytes(Part::kPrivate) << " bytes, " << options.max_reads_per_step << " reads a step";
  }
}

TEST(MemoryPlan, HasRoomForTheFramesThatServeOthersAndForGuests) {
  StoreOptions options = options_of(50, 2000, 2000);
  const std::uint64_t alone = MemoryPlan::minimum(options);
  options.serving_frames = 3;
  const std::uint64_t serving = MemoryPlan::minimum(options);
  EXPECT_GE(serving, alone + 3 * options.layout.record_bytes(Part::kPublic) + 50 * sizeof(DirectoryEntry));
  options.guests = 1000;
  const std::uint64_t least = MemoryPlan::minimum(options);
  EXPECT_GT(least, serving);
  options.ram_bytes = least;
  const MemoryPlan plan = MemoryPlan::for_options(options);
  EXPECT_EQ(plan.least_public, options.max_reads_per_step + 2 + 3);
  EXPECT_GE(plan.arena, least_arena(plan, options.layout));
  options.ram_bytes = least - 1;
  EXPECT_THAT([&] { MemoryPlan::for_options(options); }, ThrowsMessage<Error>(HasSubstr("need at least")));
}

TEST(MemoryPlan, SaysWhatTheMinimumComesFrom) {
  StoreOptions options = options_of(1000, 61706, 61706);
  options.ram_bytes = 1 << 20;
  EXPECT_THAT([&] { MemoryPlan::for_options(options); },
              ThrowsMessage<Error>(AllOf(HasSubstr("1.00 MiB of RAM is too little"), HasSubstr("1000 nodes"),
                                         HasSubstr("244 KiB (public)"), HasSubstr("reads up to 8"))));
}

TEST(MemoryPlan, IsMadeOfSharesThatTheStoreReallyChargesAndNoMore) {
  const TemporaryDirectory directory(fast_directory());
  StoreOptions options = options_of(50, 2000, 2000);
  options.directory = directory.path() / "store";
  options.ram_bytes = StateStore::minimum_ram(options);
  const auto store = StateStore::create(options);
  const StoreReport report = store->report();
  std::uint64_t charged = 0;
  for (const std::uint64_t bytes : report.memory) charged += bytes;
  const MemoryPlan plan = MemoryPlan::for_options(options);
  EXPECT_EQ(charged, plan.total() - plan.plans) << "no round is planned yet";
}

TEST(MemoryPlan, RefusesAStoreWithoutNodes) {
  StoreOptions options = options_of(0, 10, 10);
  options.ram_bytes = 1 << 30;
  EXPECT_THAT([&] { MemoryPlan::for_options(options); }, ThrowsMessage<Error>(HasSubstr("at least one node")));
}

}  // namespace
}  // namespace shoal
