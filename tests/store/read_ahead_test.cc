// What the next round begins with is read while this one's last steps are worked on.
#include <gtest/gtest.h>

#include "store/memory_device.h"
#include "store/ready_queue.h"
#include "store/state_store.h"
#include "tests/store/store_harness.h"

namespace shoal::testing {
namespace {

constexpr NodeId kNodes = 60;

// All nodes act in order; where there is a neighbour, the one before is read as well.
std::shared_ptr<const AccessPlan> in_order(bool with_neighbours) {
  auto plan = std::make_shared<AccessPlan>();
  for (NodeId node = 0; node < kNodes; ++node) {
    const NodeId before = (node + kNodes - 1) % kNodes;
    plan->add(StepKind::kUpdate, node, std::span(&before, with_neighbours ? 1 : 0));
  }
  return plan;
}

class ReadAhead : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.directory = directory_.path() / "store";
    options_.layout = layout_of(20000, 20000);
    options_.nodes = kNodes;
    options_.max_reads_per_step = 1;
    options_.prefetch_bytes = 4 * (2 * options_.layout.record_bytes(Part::kPublic) + 20480);
    options_.ram_bytes = StateStore::minimum_ram(options_) + 8 * options_.layout.state_bytes();
    options_.device_hook = [files = std::make_shared<MemoryFiles>()](std::unique_ptr<IoDevice>) {
      return make_memory_device(files, {});
    };
    store_ = StateStore::create(options_);
    run_both(*store_, model_, creation_plan(kNodes), 1, 1);
    // No private record is all zeros after this.
    for (std::uint64_t round = 0; round < 3; ++round) run_both(*store_, model_, in_order(false), 4, 1);
  }

  // Runs the planned round, and stays in its last step until the engine has looked around often. The steps do nothing:
  // the model knows what the payloads were before.
  void dwell_in_last_step(const AccessPlan& plan) {
    ReadyQueue queue;
    store_->begin_round([&](NodeLease lease) { queue.push(std::move(lease)); }, [&] { queue.close(); });
    std::size_t left = plan.size();
    while (auto lease = queue.pop()) {
      if (--left == 0) {
        for (int look = 0; look < 100; ++look) store_->report();
      }
      std::copy_n(lease->current(), options_.layout.payload_bytes(Part::kPublic), lease->next());
      lease->commit();
    }
    store_->end_round();
    for (ModelNode& node : model_.nodes) ++node.version;
  }

  std::uint64_t bytes_of_misses(const RoundReport& report) const {
    return report.misses[0] * options_.layout.record_bytes(Part::kPublic) +
           report.misses[1] * options_.layout.record_bytes(Part::kPrivate);
  }

  TemporaryDirectory directory_{fast_directory()};
  StoreOptions options_;
  Model model_{kNodes, layout_of(20000, 20000)};
  std::unique_ptr<StateStore> store_;
};

TEST_F(ReadAhead, BringsWhatTheNextRoundBeginsWithBeforeThisOneEnds) {
  for (const bool with_neighbours : {false, true}) {
    const auto plan = in_order(with_neighbours);
    store_->plan(plan);
    store_->plan(plan);
    dwell_in_last_step(*plan);
    const RoundReport report = run_round(*store_, *plan, model_, 9, 1);
    model_.run(*plan, 9);
    EXPECT_EQ(report.zero_misses + report.cold_misses, 0U);
    // The last step's own records could not come before it was done; those of the first steps could.
    EXPECT_GE(bytes_of_misses(report), report.slab_bytes_read + options_.layout.state_bytes());
  }
  expect_equal(*store_, model_);
}

TEST_F(ReadAhead, ReadsNothingWhereTheNextRoundIsNotKnown) {
  const auto plan = in_order(true);
  store_->plan(plan);
  dwell_in_last_step(*plan);
  store_->plan(plan);
  const RoundReport report = run_round(*store_, *plan, model_, 9, 1);
  EXPECT_EQ(bytes_of_misses(report), report.slab_bytes_read);
}

}  // namespace
}  // namespace shoal::testing
