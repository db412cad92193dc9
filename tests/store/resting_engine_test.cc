// The engine leaves completions and returned leases lying while its workers have enough to do; not for ever.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "store/ready_queue.h"
#include "tests/store/store_harness.h"

namespace shoal::testing {
namespace {

TEST(RestingEngine, GoesOnForACallerThatKeepsMoreLeasesThanItHasWorkers) {
  TemporaryDirectory directory;
  StoreOptions options;
  options.directory = directory.path() / "store";
  options.layout = layout_of(20000, 20000);
  options.nodes = 200;
  options.workers = 1;
  options.ram_bytes = StateStore::minimum_ram(options) + 20 * options.layout.state_bytes();
  Model model(options.nodes, options.layout);
  auto store = StateStore::create(options);
  run_both(*store, model, creation_plan(options.nodes), 1, 1);

  auto plan = std::make_shared<AccessPlan>();
  for (NodeId node = 0; node < options.nodes; ++node) plan->add(StepKind::kInspect, node);
  store->plan(plan);
  ReadyQueue queue;
  store->begin_round([&](NodeLease lease) { queue.push(std::move(lease)); }, [&] { queue.close(); });
  std::vector<NodeLease> kept;
  while (kept.size() < 6) kept.push_back(std::move(*queue.pop()));
  kept.clear();
  NodeId others = 0;
  while (queue.pop()) ++others;
  EXPECT_EQ(others, options.nodes - 6);
  EXPECT_GT(store->end_round().slab_bytes_read, 0u);
}

}  // namespace
}  // namespace shoal::testing
