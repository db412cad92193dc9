// A closed store is its files, wherever they lie: no file of it knows its own path.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "store/checkpoint_reader.h"
#include "tests/store/store_harness.h"

namespace shoal::testing {
namespace {

constexpr NodeId kNodes = 8;

class StoreMove : public ::testing::TestWithParam<bool> {
 protected:
  StoreOptions options_in(const std::filesystem::path& directory) const {
    StoreOptions options;
    options.directory = directory / "store";
    if (GetParam()) options.cold_directory = directory / "elsewhere" / "cold";
    options.layout = layout_of(5000, 3000);
    options.nodes = kNodes;
    options.max_reads_per_step = 2;
    options.ram_bytes = StateStore::minimum_ram(options);
    return options;
  }
};

TEST_P(StoreMove, RenamesAsAWhole) {
  const TemporaryDirectory directory(fast_directory());
  const std::filesystem::path before = directory.path() / "here-it-was-made";
  const std::filesystem::path after = directory.path() / "there-it-goes-on";
  Model model(kNodes, layout_of(5000, 3000));
  std::mt19937_64 random(1);
  {
    auto store = StateStore::create(options_in(before));
    run_both(*store, model, creation_plan(kNodes), 1, 1);
    store->checkpoint("one");
    store->demote(std::vector<NodeId>{1, 2});
    store->checkpoint("two");
    run_both(*store, model, gossip_plan(kNodes, 2, random), 2, 1);
    store->prepare_checkpoint("three");
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(before)) {
    if (!entry.is_regular_file()) continue;
    std::string bytes(entry.file_size(), '\0');
    std::ifstream(entry.path(), std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    EXPECT_EQ(bytes.find("here-it-was-made"), std::string::npos) << entry.path() << " knows where it is";
  }
  std::filesystem::rename(before, after);
  EXPECT_EQ(StateStore::checkpoints(options_in(after)).size(), 2u);
  EXPECT_EQ(CheckpointReader(options_in(after)).note(), "three");
  auto store = StateStore::open(options_in(after));
  expect_equal(*store, model);
  run_both(*store, model, gossip_plan(kNodes, 2, random), 3, 1);
  store->checkpoint("four");
  EXPECT_THAT(store->verify().problems, ::testing::IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(before));
}

INSTANTIATE_TEST_SUITE_P(Cold, StoreMove, ::testing::Bool(), [](const auto& elsewhere) {
  return elsewhere.param ? std::string("elsewhere") : std::string("inside");
});

}  // namespace
}  // namespace shoal::testing
