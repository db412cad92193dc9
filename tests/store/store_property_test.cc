// The store against a trivial model: random plans, budgets, layouts, devices and tier moves, with concurrent workers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <string>

#include "store/error.h"
#include "store/memory_device.h"
#include "tests/store/store_harness.h"

namespace shoal {
namespace {

using testing::creation_plan;
using testing::expect_equal;
using testing::layout_of;
using testing::Model;
using testing::random_plan;
using testing::run_round;

// SHOAL_PROPERTY_STORES=5000 for a long run.
unsigned store_count() {
  const char* text = std::getenv("SHOAL_PROPERTY_STORES");
  return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : 60;
}

enum class Kind { kUring, kPosix, kMapped, kMemory };

class StoreProperty : public ::testing::TestWithParam<Kind> {
 protected:
  // One store's life: created, run for many random rounds with everything that may happen between them, compared.
  void live(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    // Where O_DIRECT matters on a disk, else where fsync costs nothing; mapped slabs live on both.
    const bool in_memory = GetParam() == Kind::kMemory || (GetParam() == Kind::kMapped && seed % 2 == 0);
    TemporaryDirectory directory(in_memory ? fast_directory() : std::filesystem::temp_directory_path());
    auto files = std::make_shared<MemoryFiles>();
    StoreOptions options;
    options.directory = directory.path() / "store";
    options.nodes = static_cast<NodeId>(1 + random() % 40);
    options.layout = layout_of(4 + random() % 20000, random() % 4 == 0 ? 0 : random() % 30000);
    options.max_reads_per_step = random() % 6;
    options.rounds_ahead = 3;
    options.max_reads_per_round = 40 * 6;
    options.queue_depth = static_cast<unsigned>(1 + random() % 16);
    options.relaxed_queue_depth = static_cast<unsigned>(1 + random() % 64);
    options.submit_batch = static_cast<unsigned>(1 + random() % 32);
    if (random() % 2 == 0) options.prefetch_bytes = 1 + random() % 200000;
    const bool in_place = GetParam() == Kind::kMapped;
    const std::uint64_t state = options.nodes * options.layout.state_bytes();
    // Anything from very little to more than all of it; used in place, the next versions must fit as well.
    if (random() % 2 == 0 && !in_place) options.warm_bytes = random() % (2 * state);
    options.ram_bytes = StateStore::minimum_ram(options) + random() % (2 * state);
    switch (GetParam()) {
      case Kind::kUring: options.io = IoEngine::kDirect; break;
      case Kind::kMapped: options.io = IoEngine::kMapped; break;
      default: options.io = IoEngine::kPosix;
    }
    if (GetParam() == Kind::kMemory) {
      options.device_hook = [files](std::unique_ptr<IoDevice>) { return make_memory_device(files, {}); };
    }
    const unsigned workers = static_cast<unsigned>(1 + random() % 3);
    if (random() % 2 == 0) options.workers = workers;
    SCOPED_TRACE(fmt::format("seed {}", seed));

    Model model(options.nodes, options.layout);
    Model saved = model;
    auto store = StateStore::create(options);
    std::uint64_t moved = 0;
    std::uint64_t bound = 0;
    const auto count = [&](const RoundReport& report) {
      moved += report.slab_bytes_read + report.slab_bytes_written + report.cold_bytes_read + report.cold_bytes_written;
      bound += report.lower_bound_bytes;
    };
    std::deque<std::shared_ptr<const AccessPlan>> ahead;
    const auto plan = [&](std::shared_ptr<const AccessPlan> round) {
      store->plan(round);
      ahead.push_back(std::move(round));
    };
    plan(creation_plan(options.nodes));
    const std::uint64_t rounds = 3 + random() % 20;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      while (ahead.size() < 1 + random() % 3) plan(random_plan(options.nodes, options.max_reads_per_step, random));
      const auto current = ahead.front();
      count(run_round(*store, *current, model, seed + round, workers));
      model.run(*current, seed + round);
      ahead.pop_front();
      ASSERT_LE(bound, moved) << "round " << round;

      std::vector<NodeId> some;
      for (NodeId node = 0; node < options.nodes; ++node) {
        if (random() % 3 == 0) some.push_back(node);
      }
      switch (random() % 8) {
        case 0:
          store->checkpoint(fmt::format("round {}", round));
          saved = model;
          break;
        case 1: store->demote(some); break;
        case 2:
          if (options.warm_bytes > 4 * state) store->promote(some);
          break;
        case 3: EXPECT_THAT(store->verify().problems, ::testing::IsEmpty()); break;
        case 4:
          if (random() % 2 == 0) {
            // As after a crash: the last checkpoint is what there is. Another budget this time.
            store.reset();
            options.ram_bytes = StateStore::minimum_ram(options) + random() % (2 * state);
            store = StateStore::open(options);
            model = saved;
            moved = bound = 0;
            ahead.clear();
            expect_equal(*store, model);
            if (model.nodes[0].version == 0) plan(creation_plan(options.nodes));
          }
          break;
        default: break;
      }
    }
    if (ahead.empty()) expect_equal(*store, model);
    const StoreReport report = store->report();
    std::uint64_t charged = 0;
    for (const std::uint64_t bytes : report.memory) charged += bytes;
    EXPECT_LE(charged, options.ram_bytes);
  }
};

TEST_P(StoreProperty, EqualsAnInMemoryMapOverRandomPlansBudgetsAndLayouts) {
  const unsigned stores = store_count();
  for (std::uint64_t seed = 1; seed <= stores && !HasFatalFailure(); ++seed)
    live(seed * 1000 + static_cast<std::uint64_t>(GetParam()));
}

std::string kind_name(const ::testing::TestParamInfo<Kind>& kind) {
  switch (kind.param) {
    case Kind::kUring: return "uring";
    case Kind::kPosix: return "posix";
    case Kind::kMapped: return "mapped";
    default: return "memory";
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, StoreProperty,
                         ::testing::Values(Kind::kUring, Kind::kPosix, Kind::kMapped, Kind::kMemory), kind_name);

}  // namespace
}  // namespace shoal
