// Every single I/O of a scenario fails once, in every way: a clean Error each time, and the checkpoints that were
// acknowledged open.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "store/error.h"
#include "store/faulty_device.h"
#include "store/memory_device.h"
#include "tests/store/store_harness.h"

namespace shoal::testing {
namespace {

constexpr NodeId kNodes = 10;

// What a run did before it failed, if it did.
struct Outcome {
  std::map<std::uint64_t, Model> saved;  // by epoch, acknowledged or not
  std::uint64_t prepared = 0;            // the last epoch that was acknowledged so
  std::uint64_t committed = 0;
  bool created = false;
  std::string error;  // empty: none
};

class StoreFault : public ::testing::Test {
 protected:
  StoreOptions options(const std::filesystem::path& directory, std::shared_ptr<MemoryFiles> files,
                       std::shared_ptr<FaultScript> script) {
    StoreOptions options;
    options.directory = directory;
    options.layout = layout_of(5000, 3000);
    options.nodes = kNodes;
    options.max_reads_per_step = 2;
    options.io = IoEngine::kPosix;
    options.ram_bytes = StateStore::minimum_ram(options);
    options.warm_bytes = 24 * options.layout.state_bytes();  // so little that slots without blocks are needed again
    options.device_hook = [files = std::move(files), script = std::move(script)](std::unique_ptr<IoDevice>) {
      auto device = make_memory_device(files, {});
      return script ? make_faulty_device(std::move(device), script) : std::move(device);
    };
    return options;
  }

  // Creates, runs rounds, checkpoints, demotes, verifies: every kind of I/O the store does.
  // `before_closing` is called when the run failed, with the store still open.
  Outcome run(
      const StoreOptions& options, const std::function<void()>& before_closing = [] {}) {
    Outcome outcome;
    outcome.saved.emplace(0, Model(kNodes, options.layout));
    std::unique_ptr<StateStore> store;
    try {
      store = StateStore::create(options);
      outcome.created = true;
      Model model = outcome.saved.at(0);
      std::mt19937_64 random(7);
      std::uint64_t seed = 0;
      const auto round = [&](std::shared_ptr<const AccessPlan> plan) {
        run_both(*store, model, std::move(plan), ++seed, 2);
      };
      const auto checkpoint = [&](const std::function<void()>& between = [] {}) {
        outcome.saved.emplace(outcome.committed + 1, model);
        store->prepare_checkpoint(std::to_string(seed));
        outcome.prepared = outcome.committed + 1;
        between();
        store->commit_checkpoint();
        outcome.committed = outcome.prepared;
      };
      round(creation_plan(kNodes));
      checkpoint();
      round(gossip_plan(kNodes, 2, random));
      const std::vector<NodeId> some = {1, 4, 5};
      store->demote(some);
      round(gossip_plan(kNodes, 2, random));
      checkpoint();
      store->promote(some);
      round(gossip_plan(kNodes, 2, random));
      checkpoint([&] {
        const VerifyReport verified = store->verify();
        if (!verified.problems.empty()) throw Error(verified.problems.front());
      });
    } catch (const Error& error) {
      outcome.error = error.what();
      before_closing();
    }
    return outcome;
  }

  // Opens the older or the newer one of those there, if there are two.
  void expect_checkpoint(StoreOptions options, const Outcome& outcome, bool older) {
    const auto there = StateStore::checkpoints(options);
    EXPECT_GE(there.front().epoch, outcome.committed);
    EXPECT_LE(there.front().epoch, std::max(outcome.committed, outcome.prepared));
    EXPECT_GE(there.back().epoch, outcome.prepared);
    options.open_epoch = older ? there.front().epoch : there.back().epoch;
    auto store = StateStore::open(options);
    EXPECT_LE(store->report().slab_bytes, kNodes * options.layout.state_bytes());
    expect_equal(*store, outcome.saved.at(*options.open_epoch));
    EXPECT_THAT(store->verify().problems, ::testing::IsEmpty());
    both_ += there.size() == 2 ? 1 : 0;
  }

  unsigned both_ = 0;  // how often there were two
};

// Under a sanitizer a run takes ten times as long: there every fault fails a fourth of the operations, another fourth
// each, so that together they still meet every one.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kStride = 4;
#else
constexpr std::uint64_t kStride = 1;
#endif

class EveryOperation : public StoreFault, public ::testing::WithParamInterface<Fault> {};

TEST_P(EveryOperation, ThatFailsEndsInACleanErrorAndAnIntactCheckpoint) {
  std::uint64_t operations = 0;
  {
    TemporaryDirectory directory(fast_directory());
    auto script = std::make_shared<FaultScript>();
    const Outcome outcome = run(options(directory.path(), std::make_shared<MemoryFiles>(), script));
    ASSERT_EQ(outcome.error, "");
    operations = script->operations();
    for (std::size_t kind = 0; kind < kDeviceOperationCount; ++kind) {
      EXPECT_GT(script->operations(static_cast<DeviceOperation>(kind)), 0u) << "the scenario misses operation " << kind;
    }
  }
  ASSERT_GT(operations, 100u);
  unsigned failed = 0;
  const std::uint64_t first = 1 + static_cast<std::uint64_t>(GetParam()) % kStride;
  for (std::uint64_t nth = first; nth <= operations; nth += kStride) {
    TemporaryDirectory directory(fast_directory());
    auto files = std::make_shared<MemoryFiles>();
    auto script = std::make_shared<FaultScript>();
    script->fail(nth, GetParam());
    const Outcome outcome = run(options(directory.path(), files, script));
    SCOPED_TRACE(fmt::format("operation {}, error '{}'", nth, outcome.error));
    if (script->injected() == 0) continue;  // the workers' timing moved: this run had fewer operations
    ++failed;
    ASSERT_NE(outcome.error, "");
    // The user is told where: a file of the store, and the place in it where there is one.
    ASSERT_THAT(outcome.error, ::testing::HasSubstr(directory.path().string()));
    ASSERT_THAT(outcome.error, ::testing::HasSubstr(".slab"));
    if (!outcome.created) continue;
    ASSERT_NO_THROW(expect_checkpoint(options(directory.path(), files, nullptr), outcome, nth % 2 == 0));
  }
  EXPECT_GT(failed * kStride, operations * 9 / 10);
  EXPECT_GT(both_, 0u) << "no fault came between prepare and commit";
}

std::string fault_name(const ::testing::TestParamInfo<Fault>& fault) {
  constexpr const char* kNames[] = {"io_error", "short", "no_space", "torn"};
  return kNames[static_cast<std::size_t>(fault.param)];
}

INSTANTIATE_TEST_SUITE_P(Faults, EveryOperation,
                         ::testing::Values(Fault::kIoError, Fault::kShort, Fault::kNoSpace, Fault::kTorn), fault_name);

TEST_F(StoreFault, APowerCutAtAnyMomentLeavesTheLastCheckpoint) {
  std::mt19937_64 random(3);
  for (int attempt = 0; attempt < 40; ++attempt) {
    TemporaryDirectory directory(fast_directory());
    auto files = std::make_shared<MemoryFiles>();
    auto script = std::make_shared<FaultScript>();
    script->keep_undo();
    script->fail(20 + random() % 150, Fault::kIoError);
    // The injected error stops the run somewhere; then the power goes, and of what was never synced every block
    // survives or not by chance.
    const std::uint64_t chance = random();
    const Outcome outcome = run(options(directory.path(), files, script), [&] { script->cut_power(chance); });
    if (outcome.error.empty() || !outcome.created) continue;
    SCOPED_TRACE(fmt::format("attempt {}: {}", attempt, outcome.error));
    ASSERT_NO_THROW(expect_checkpoint(options(directory.path(), files, nullptr), outcome, attempt % 2 == 0));
  }
}

TEST_F(StoreFault, LateAndReorderedCompletionsChangeNothing) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    TemporaryDirectory directory(fast_directory());
    auto files = std::make_shared<MemoryFiles>();
    auto script = std::make_shared<FaultScript>();
    script->delay_completions(seed);
    const Outcome outcome = run(options(directory.path(), files, script));
    ASSERT_EQ(outcome.error, "");
    expect_checkpoint(options(directory.path(), files, nullptr), outcome, false);
  }
}

}  // namespace
}  // namespace shoal::testing
