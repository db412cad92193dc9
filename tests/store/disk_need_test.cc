// What a store is said to take at most, against what it takes.
#include "store/disk_need.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "store/use_index.h"
#include "tests/store/store_harness.h"

namespace shoal::testing {
namespace {

std::uint64_t blocks_below(const std::filesystem::path& folder) {
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    struct ::stat status {};
    if (::lstat(entry.path().c_str(), &status) == 0) bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  return bytes;
}

// Records so large that files grow more than once.
StoreOptions options_of(const std::filesystem::path& directory, NodeId nodes) {
  StoreOptions options;
  options.directory = directory;
  options.layout = layout_of(3 << 20, 2 << 20);
  options.nodes = nodes;
  options.max_reads_per_step = 3;
  options.rounds_ahead = 1;
  options.ram_bytes = StateStore::minimum_ram(options) + 4 * options.layout.state_bytes();
  return options;
}

class DiskNeedOfRuns : public ::testing::TestWithParam<std::tuple<IoEngine, std::uint64_t, bool>> {};

TEST_P(DiskNeedOfRuns, IsNeverLessThanWhatTheyTake) {
  const auto [io, checkpoints, limited] = GetParam();
  constexpr NodeId kNodes = 16;
  const TemporaryDirectory directory;
  StoreOptions options = options_of(directory.path(), kNodes);
  options.io = io;
  if (limited) options.warm_bytes = 11 * options.layout.state_bytes();
  SlotUse use;
  use.in_place = uses_in_place(options);
  use.checkpoints = checkpoints;
  const DiskNeed need = most_disk(options, use);

  Model model(kNodes, options.layout);
  const auto store = StateStore::create(options);
  std::uint64_t most = 0;
  std::mt19937_64 random(5);
  run_both(*store, model, creation_plan(kNodes), 1, 2);
  for (std::uint64_t round = 0; round < 2; ++round) {
    run_both(*store, model, gossip_plan(kNodes, 3, random), round, 2);
    most = std::max(most, blocks_below(directory.path()));
    if (round < checkpoints) store->checkpoint("x");
    most = std::max(most, blocks_below(directory.path()));
  }
  EXPECT_LE(most, need.total());
  // What RocksDB has not compacted yet is a bound of its own, and nothing that a small store comes near to.
  EXPECT_GT(2 * most, limited ? need.store : need.total())
      << "a bound that is far from what is taken refuses runs that would fit";
  EXPECT_LE(store->report().slab_file_bytes, need.store);
}

std::string run_name(const ::testing::TestParamInfo<DiskNeedOfRuns::ParamType>& test) {
  return std::string(name(std::get<0>(test.param))) + "_" + std::to_string(std::get<1>(test.param)) +
         (std::get<2>(test.param) ? "_limited" : "");
}
INSTANTIATE_TEST_SUITE_P(
    Runs, DiskNeedOfRuns,
    ::testing::Values(std::tuple{IoEngine::kDirect, 0, false}, std::tuple{IoEngine::kDirect, 2, false},
                      std::tuple{IoEngine::kDirect, 0, true}, std::tuple{IoEngine::kDirect, 2, true},
                      std::tuple{IoEngine::kMapped, 0, false}, std::tuple{IoEngine::kMapped, 2, false}),
    run_name);

TEST(DiskNeed, KnowsThatFilesGrowInSteps) {
  StoreOptions options = options_of("", 4);
  options.layout = layout_of(8000, 8000);
  // Ten slots take 80 KiB, and a file that has grown once 64 MiB.
  EXPECT_EQ(slab_bytes_for(options, {}, {10, 0}), std::uint64_t{64} << 20);
  EXPECT_EQ(slab_bytes_for(options, {}, {10, 10}), std::uint64_t{128} << 20);
  EXPECT_EQ(slab_bytes_for(options, {}, {0, 0}), 0U);
}

TEST(DiskNeed, InRamIsThatOfCheckpoints) {
  const StoreOptions options = options_of("", 40);
  SlotUse use;
  use.in_ram = true;
  EXPECT_EQ(most_slots(options, use), (SlotCounts{0, 0}));
  use.checkpoints = 1;
  EXPECT_EQ(most_slots(options, use), (SlotCounts{40, 40}));
  use.checkpoints = 2;
  EXPECT_EQ(most_slots(options, use), (SlotCounts{80, 80})) << "one is kept until the next is durable";
}

TEST(DiskNeed, BeyondWarmBytesIsTheColdTiers) {
  StoreOptions options = options_of("", 40);
  options.warm_bytes = 10 * options.layout.state_bytes();
  EXPECT_EQ(cold_bytes_of(options, {}, {40, 40}), 30 * options.layout.state_bytes());
  const DiskNeed limited = most_disk(options, {});
  EXPECT_LE(limited.store, options.warm_bytes + (1 << 20));
  EXPECT_GT(limited.cold, 30 * options.layout.state_bytes());
  SlotUse mapped;
  mapped.in_place = true;
  EXPECT_GT(most_disk(options, mapped).store, 40 * options.layout.state_bytes());
}

TEST(DiskNeed, OnTmpfsRecordsAreUsedInPlace) {
  if (!std::filesystem::exists("/dev/shm")) GTEST_SKIP() << "NOT TESTED: there is no /dev/shm";
  StoreOptions options = options_of("/dev/shm/not-there/yet", 4);
  EXPECT_TRUE(uses_in_place(options));
  options.serving_frames = 1;
  EXPECT_FALSE(uses_in_place(options)) << "others read the arena";
  options.serving_frames = 0;
  options.io = IoEngine::kPosix;
  EXPECT_FALSE(uses_in_place(options));
  EXPECT_FALSE(std::filesystem::exists("/dev/shm/not-there"));
}

}  // namespace
}  // namespace shoal::testing
