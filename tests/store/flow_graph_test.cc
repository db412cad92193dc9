// The store as the pipeline will use it: it feeds an asynchronous node of a oneTBB flow graph, and no worker ever
// blocks.
#include <gtest/gtest.h>
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>

#include <atomic>
#include <cstring>
#include <memory>

#include "tests/store/store_harness.h"

namespace shoal::testing {
namespace {

using LeasePointer = std::shared_ptr<NodeLease>;
using Source = tbb::flow::async_node<tbb::flow::continue_msg, LeasePointer>;

TEST(FlowGraph, IsFedByTheStoreWithoutBlockingAWorker) {
  TemporaryDirectory directory;
  StoreOptions options;
  options.directory = directory.path() / "store";
  options.nodes = 100;
  options.layout = layout_of(20000, 10000);
  options.max_reads_per_step = 4;
  options.ram_bytes = StateStore::minimum_ram(options) + 10 * options.layout.state_bytes();
  auto store = StateStore::create(options);
  Model model(options.nodes, options.layout);
  run_both(*store, model, creation_plan(options.nodes), 1, 2);

  std::mt19937_64 random(4);
  const auto plan = gossip_plan(options.nodes, 4, random);
  store->plan(plan);
  std::atomic<unsigned> steps = 0;
  std::atomic<unsigned> wrong = 0;
  tbb::flow::graph graph;
  Source source(graph, tbb::flow::unlimited, [&](tbb::flow::continue_msg, Source::gateway_type& gateway) {
    gateway.reserve_wait();
    store->begin_round([&gateway](NodeLease lease) { gateway.try_put(std::make_shared<NodeLease>(std::move(lease))); },
                       [&gateway] { gateway.release_wait(); });
  });
  tbb::flow::function_node<LeasePointer> work(graph, 2, [&](const LeasePointer& lease) {
    const auto reads = plan->reads(lease->step());
    for (std::size_t k = 0; k < reads.size(); ++k) {
      const Words& expected = model.nodes[reads[k]].published;
      if (std::memcmp(lease->read(k), expected.data(), expected.size() * sizeof(expected[0])) != 0) ++wrong;
    }
    std::memcpy(lease->next(), lease->current(), options.layout.payload_bytes(Part::kPublic));
    lease->commit();
    ++steps;
  });
  tbb::flow::make_edge(source, work);
  source.try_put(tbb::flow::continue_msg());
  graph.wait_for_all();
  store->end_round();
  EXPECT_EQ(steps, 100u);
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(store->version(99), 2u);
}

}  // namespace
}  // namespace shoal::testing
