// Which tier a round's records came from.
#include <gtest/gtest.h>

#include <numeric>

#include "store/state_store.h"
#include "tests/store/store_harness.h"

namespace shoal::testing {
namespace {

TEST(TierHits, CountEveryUseOnceByTheTierThatServedIt) {
  constexpr NodeId kNodes = 40;
  constexpr NodeId kActing = 30;
  constexpr NodeId kCold = 10;
  TemporaryDirectory directory;
  StoreOptions options;
  options.directory = directory.path() / "store";
  options.layout = layout_of(20000, 20000);
  options.nodes = kNodes;
  options.ram_bytes = StateStore::minimum_ram(options) + 3 * kNodes * options.layout.state_bytes();
  Model model(kNodes, options.layout);
  auto store = StateStore::create(options);
  run_both(*store, model, creation_plan(kNodes), 1, 1);
  store->checkpoint("");  // zeros are known as such
  std::vector<NodeId> cold(kCold);
  std::iota(cold.begin(), cold.end(), NodeId{0});
  store->demote(cold);
  store->checkpoint("");
  store.reset();
  store = StateStore::open(options);  // nothing is in RAM

  auto plan = std::make_shared<AccessPlan>();
  for (NodeId node = 0; node < kActing; ++node) {
    const NodeId before = node > 0 ? node - 1 : 0;  // which is there already
    plan->add(StepKind::kUpdate, node, std::span(&before, 1));
  }
  const RoundReport report = run_both(*store, model, plan, 2, 1);
  EXPECT_EQ(report.hits[index(Part::kPublic)], kActing) << "the reads";
  EXPECT_EQ(report.hits[index(Part::kPrivate)], 0U);
  EXPECT_EQ(report.misses[index(Part::kPublic)], kActing);
  EXPECT_EQ(report.misses[index(Part::kPrivate)], kActing);
  // The harness leaves the private state of every third node at zero.
  EXPECT_EQ(report.zero_misses, kActing / 3);
  EXPECT_EQ(report.cold_misses, kCold + (kCold - 4));
}

}  // namespace
}  // namespace shoal::testing
