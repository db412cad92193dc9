#include "store/state_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "store/error.h"
#include "store/memory_device.h"
#include "store/ready_queue.h"
#include "tests/store/counted_allocations.h"
#include "tests/store/store_harness.h"

namespace shoal::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

StoreOptions options_for(const TemporaryDirectory& directory, NodeId nodes = 200, std::uint64_t public_bytes = 20000,
                         std::uint64_t private_bytes = 20000) {
  StoreOptions options;
  options.directory = directory.path() / "store";
  options.layout = layout_of(public_bytes, private_bytes);
  options.nodes = nodes;
  options.ram_bytes = StateStore::minimum_ram(options) + 20 * options.layout.state_bytes();
  return options;
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

TEST(StateStore, TellsOfEveryStallThatItsReportsAddUp) {
  TemporaryDirectory directory;
  StoreOptions options = options_for(directory);
  std::map<Stall, double> told;
  double end_of_last = 0;
  options.on_stall = [&](Stall stall, StoreOptions::Time from, StoreOptions::Time to) {
    const auto seconds = [](StoreOptions::Time time) {
      return std::chrono::duration<double>(time.time_since_epoch()).count();
    };
    EXPECT_LE(end_of_last, seconds(from)) << "they do not overlap";
    end_of_last = seconds(to);
    told[stall] += std::chrono::duration<double>(to - from).count();
  };
  RoundReport sum;
  {
    Model model(options.nodes, options.layout);
    auto store = StateStore::create(options);
    std::mt19937_64 random(1);
    run_both(*store, model, creation_plan(200), 1, 2);
    told.clear();
    for (std::uint64_t round = 0; round < 5; ++round) {
      const RoundReport report = run_both(*store, model, gossip_plan(200, 8, random), round + 2, 2);
      sum.stalled_seconds += report.stalled_seconds;
      sum.write_stalled_seconds += report.write_stalled_seconds;
    }
  }
  EXPECT_GT(told[Stall::kRead], 0) << "the first step of a round waits for its records";
  EXPECT_NEAR(told[Stall::kWriteBack], sum.write_stalled_seconds, 1e-6);
  EXPECT_NEAR(told[Stall::kRead] + told[Stall::kWriteBack], sum.stalled_seconds, 1e-6);
  EXPECT_FALSE(told.contains(Stall::kNeighbours));
}

TEST(StateStore, GivesBackWhatWasWrittenWithATinyBudget) {
  TemporaryDirectory directory;
  const StoreOptions options = options_for(directory);
  Model model(options.nodes, options.layout);
  auto store = StateStore::create(options);
  std::mt19937_64 random(1);
  run_both(*store, model, creation_plan(200), 1, 2);
  for (std::uint64_t round = 0; round < 5; ++round) {
    const RoundReport report = run_both(*store, model, gossip_plan(200, 8, random), round + 2, 2);
    EXPECT_GT(report.slab_bytes_read, 0u);
    EXPECT_GT(report.slab_bytes_written, 0u);
  }
  expect_equal(*store, model);
  EXPECT_THAT(store->verify().problems, IsEmpty());
}

TEST(StateStore, RemovesItsFilesAndNothingElse) {
  TemporaryDirectory directory;
  const StoreOptions options = options_for(directory, 10);
  auto store = StateStore::create(options);
  EXPECT_THAT(error_of([&] { StateStore::remove(options); }), HasSubstr("in use"));
  store.reset();
  std::ofstream(options.directory / "thesis.tex") << "all my work";
  StateStore::remove(options);
  EXPECT_FALSE(std::filesystem::exists(options.directory / "public.slab"));
  EXPECT_FALSE(std::filesystem::exists(options.directory / "cold"));
  EXPECT_TRUE(std::filesystem::exists(options.directory / "thesis.tex"));
  EXPECT_THAT(error_of([&] { StateStore::remove(options); }), HasSubstr("no store"));
}

TEST(StateStore, GivesEveryLeaseThatIsOutAPlaceOfItsOwn) {
  TemporaryDirectory directory;
  const StoreOptions options = options_for(directory, 50);
  auto store = StateStore::create(options);
  store->plan(creation_plan(50));
  std::vector<std::atomic<int>> out(store->places());
  std::atomic<int> wrong = 0;
  ReadyQueue queue;
  store->begin_round(
      [&](NodeLease lease) {
        if (lease.place() >= out.size() || out[lease.place()]++ != 0) ++wrong;
        queue.push(std::move(lease));
      },
      [&] { queue.close(); });
  while (auto lease = queue.pop()) {
    std::memset(lease->next(), 1, options.layout.payload_bytes(Part::kPublic));
    --out[lease->place()];
    lease->commit();
  }
  store->end_round();
  EXPECT_EQ(wrong, 0);
}

TEST(StateStore, WithRamForEverythingMovesNothingButCheckpoints) {
  TemporaryDirectory directory;
  StoreOptions options = options_for(directory);
  std::mt19937_64 random(1);
  const auto gossip = gossip_plan(200, 8, random);
  {
    auto probe = StateStore::create(options);
    probe->plan(gossip);
    options.ram_bytes = probe->report().resident_ram_bytes;
  }
  // What the store says it needs is what it needs: every record, and the old versions a round keeps alive.
  EXPECT_LT(options.ram_bytes,
            200 * (options.layout.state_bytes() + options.layout.record_bytes(Part::kPublic)) * 5 / 4 + (24 << 20));
  options.overwrite = true;
  Model model(options.nodes, options.layout);
  auto store = StateStore::create(options);
  run_both(*store, model, creation_plan(200), 1, 2);
  store->plan(gossip);
  for (std::uint64_t round = 0; round < 4; ++round) {
    store->plan(gossip);
    const RoundReport report = run_round(*store, *gossip, model, round, 2);
    model.run(*gossip, round);
    EXPECT_EQ(report.slab_bytes_read, 0u);
    EXPECT_EQ(report.slab_bytes_written, 0u);
    EXPECT_EQ(report.lower_bound_bytes, 0u);
    store->checkpoint("x");
  }
  const StoreReport report = store->report();
  EXPECT_GT(report.slab_bytes, 0u);
  EXPECT_GE(report.checkpoint_bytes_written, 2 * report.state_bytes);
  // RocksDB may have compacted the checkpoints' tables in between.
  EXPECT_LE(report.bytes_written, report.checkpoint_bytes_written + report.cold_bytes_written);
}

TEST(StateStore, MovesLittleMoreThanTheLowerBound) {
  TemporaryDirectory directory;
  StoreOptions options = options_for(directory, 2000, 4000, 4000);
  options.ram_bytes = StateStore::minimum_ram(options) + 2000 * options.layout.state_bytes() / 4;
  options.prefetch_bytes = 3 * options.layout.state_bytes();
  std::mt19937_64 random(1);
  const auto gossip = gossip_plan(2000, 8, random);
  const auto stream = gossip_plan(2000, 0, random);
  for (const auto& plan : {stream, gossip}) {
    options.overwrite = true;
    Model model(options.nodes, options.layout);
    auto store = StateStore::create(options);
    run_both(*store, model, creation_plan(2000), 1, 1);
    std::uint64_t moved = 0;
    std::uint64_t bound = 0;
    store->plan(plan);
    for (std::uint64_t round = 0; round < 5; ++round) {
      store->plan(plan);
      const RoundReport report = run_round(*store, *plan, model, round, 1);
      model.run(*plan, round);
      if (round < 2) continue;  // after creation the private records' first reads are not in the bound
      moved += report.slab_bytes_read + report.slab_bytes_written;
      bound += report.lower_bound_bytes;
    }
    EXPECT_LE(static_cast<double>(moved), 1.10 * static_cast<double>(bound));
  }
}

TEST(StateStore, KeepsNewVersionsInvisibleUntilTheRoundEnds) {
  TemporaryDirectory directory;
  const StoreOptions options = options_for(directory, 4);
  auto store = StateStore::create(options);
  Model model(4, options.layout);
  run_both(*store, model, creation_plan(4), 1, 1);
  auto plan = std::make_shared<AccessPlan>();
  const NodeId zero = 0;
  plan->add(StepKind::kUpdate, 0);
  plan->add(StepKind::kRead, 1, std::span(&zero, 1));
  store->plan(plan);
  // The reader runs strictly after the writer has committed, and still sees what was there before.
  ReadyQueue queue;
  store->begin_round([&](NodeLease lease) { queue.push(std::move(lease)); }, [&] { queue.close(); });
  NodeLease first = *queue.pop();
  NodeLease second = *queue.pop();
  NodeLease& update = first.kind() == StepKind::kUpdate ? first : second;
  NodeLease& read = first.kind() == StepKind::kUpdate ? second : first;
  std::memset(update.next(), 7, options.layout.payload_bytes(Part::kPublic));
  EXPECT_NE(update.next(), update.current());
  update.commit();
  EXPECT_EQ(std::memcmp(read.read(0), model.nodes[0].published.data(), options.layout.payload_bytes(Part::kPublic)), 0);
  EXPECT_EQ(store->version(0), 1u);
  read.commit();
  store->end_round();
  EXPECT_EQ(store->version(0), 2u);
}

TEST(StateStore, FailsTheRoundWhenALeaseThatWritesIsDropped) {
  TemporaryDirectory directory;
  const StoreOptions options = options_for(directory, 4);
  auto store = StateStore::create(options);
  store->plan(creation_plan(4));
  std::atomic<int> done = 0;
  store->begin_round([](NodeLease) {}, [&] { ++done; });
  EXPECT_THAT(error_of([&] { store->end_round(); }), HasSubstr("was given up by its worker"));
  EXPECT_EQ(done, 1);
  EXPECT_THAT(error_of([&] { store->checkpoint("x"); }), HasSubstr("was given up by its worker"));
}

TEST(StateStore, RefusesAQueueThatNothingFitsInto) {
  TemporaryDirectory directory;
  for (const auto size : {&StoreOptions::queue_depth, &StoreOptions::submit_batch}) {
    StoreOptions options = options_for(directory, 4);
    options.*size = 0;
    EXPECT_THAT(error_of([&] { StateStore::create(options); }), HasSubstr("at least 1"));
  }
}

TEST(StateStore, RefusesToReadANodeThatWasNeverCreated) {
  TemporaryDirectory directory;
  auto store = StateStore::create(options_for(directory, 4));
  auto plan = std::make_shared<AccessPlan>();
  plan->add(StepKind::kUpdate, 2);
  store->plan(plan);
  store->begin_round([](NodeLease lease) { lease.commit(); });
  EXPECT_THAT(error_of([&] { store->end_round(); }), HasSubstr("node 2, which has never been created"));
}

TEST(StateStore, RefusesPlansItWasNotOpenedForAndGoesOn) {
  TemporaryDirectory directory;
  const StoreOptions options = options_for(directory, 20);
  auto store = StateStore::create(options);
  auto plan = std::make_shared<AccessPlan>();
  const std::vector<NodeId> many(9, 1);
  plan->add(StepKind::kUpdate, 0, many);
  EXPECT_THAT(error_of([&] { store->plan(plan); }), HasSubstr("max_reads_per_step"));
  auto out_of_range = std::make_shared<AccessPlan>();
  out_of_range->add(StepKind::kUpdate, 20);
  EXPECT_THAT(error_of([&] { store->plan(out_of_range); }), HasSubstr("names node 20"));
  EXPECT_THAT(error_of([&] { store->begin_round([](NodeLease) {}); }), HasSubstr("no round is planned"));
  EXPECT_THAT(error_of([&] { store->end_round(); }), HasSubstr("no round was begun"));
  EXPECT_THAT(error_of([&] { store->demote(std::vector<NodeId>{99}); }), HasSubstr("no node 99"));
  Model model(20, options.layout);
  run_both(*store, model, creation_plan(20), 1, 1);
  expect_equal(*store, model);
}

TEST(StateStore, AllocatesNothingPerNodeInTheSteadyState) {
  if (!kCountsAllocations) GTEST_SKIP() << "NOT CHECKED in this build: the sanitizers bring their own operator new";
  TemporaryDirectory directory;
  const StoreOptions options = options_for(directory);
  auto store = StateStore::create(options);
  std::mt19937_64 random(1);
  const auto gossip = gossip_plan(200, 8, random);
  const auto round = [&](const std::shared_ptr<const AccessPlan>& plan) {
    store->plan(plan);
    const std::uint64_t before = counted_allocations();
    store->begin_round([](NodeLease lease) {
      if (lease.kind() == StepKind::kCreate) std::memset(lease.next(), 1, 100);
      lease.commit();
    });
    store->end_round();
    return counted_allocations() - before;
  };
  round(creation_plan(200));
  for (int i = 0; i < 3; ++i) round(gossip);
  // 200 steps with some 1,500 reads and 400 writes of records; a handful of allocations for the round itself.
  EXPECT_LT(round(gossip), 60u);
}

TEST(StateStore, OpensAtTheLastCheckpointAndGivesItsNoteBack) {
  TemporaryDirectory directory;
  const StoreOptions options = options_for(directory, 50);
  Model model(50, options.layout);
  std::mt19937_64 random(5);
  {
    auto store = StateStore::create(options);
    EXPECT_EQ(store->checkpoint_count(), 0u);
    run_both(*store, model, creation_plan(50), 1, 2);
    run_both(*store, model, gossip_plan(50, 4, random), 2, 2);
    const std::string note("any bytes \0\xff", 12);
    store->checkpoint(note);
    Model later = model;
    run_both(*store, later, gossip_plan(50, 4, random), 3, 2);
  }
  auto store = StateStore::open(options);
  EXPECT_EQ(store->checkpoint_note(), std::string("any bytes \0\xff", 12));
  EXPECT_EQ(store->checkpoint_count(), 1u);
  expect_equal(*store, model);
}

TEST(StateStore, ReturnsTheSpaceOfDemotedNodesToTheFileSystem) {
  TemporaryDirectory directory;
  StoreOptions options = options_for(directory, 100, 60000, 60000);
  options.io = IoEngine::kPosix;
  Model model(100, options.layout);
  auto store = StateStore::create(options);
  run_both(*store, model, creation_plan(100), 1, 2);
  std::mt19937_64 random(5);
  run_both(*store, model, gossip_plan(100, 8, random), 5, 2);
  store->checkpoint("all warm");
  const auto blocks = [&] {
    std::uint64_t total = 0;
    for (const char* name : {"public.slab", "private.slab"}) {
      struct stat status {};
      EXPECT_EQ(::stat((options.directory / name).c_str(), &status), 0);
      total += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
    return total;
  };
  const std::uint64_t before = blocks();
  std::vector<NodeId> most;
  for (NodeId node = 0; node < 90; ++node) most.push_back(node);
  store->demote(most);
  EXPECT_EQ(store->report().cold_nodes, 90u);
  // The checkpoint still refers to the slots; the next one does not.
  EXPECT_THAT(store->verify().problems, IsEmpty());
  store->checkpoint("most cold");
  EXPECT_LE(blocks() + 80 * options.layout.state_bytes(), before);
  EXPECT_LE(store->report().slab_bytes, 20 * options.layout.state_bytes());
  expect_equal(*store, model);
  store->promote(most);
  EXPECT_EQ(store->report().cold_nodes, 0u);
  expect_equal(*store, model);
}

TEST(StateStore, SendsNodesToTheColdTierByItselfWhenTheSlabsAreFull) {
  TemporaryDirectory directory;
  StoreOptions options = options_for(directory, 120, 30000, 30000);
  options.warm_bytes = 60 * options.layout.state_bytes();
  Model model(120, options.layout);
  auto store = StateStore::create(options);
  run_both(*store, model, creation_plan(120), 1, 2);
  std::mt19937_64 random(2);
  for (std::uint64_t round = 0; round < 4; ++round) {
    run_both(*store, model, gossip_plan(120, 3, random), round, 2);
    EXPECT_LE(store->report().slab_bytes, options.warm_bytes);
    EXPECT_LE(store->report().slab_file_bytes, options.warm_bytes)
        << "what is free in one file makes room in the other";
    if (round == 1) store->checkpoint("x");
  }
  EXPECT_GT(store->report().cold_nodes, 10u);
  expect_equal(*store, model);
  EXPECT_THAT(store->verify().problems, IsEmpty());
}

TEST(StateStore, MakesRoomForTheActingNodesByDemotingThoseThatActLast) {
  TemporaryDirectory directory;
  StoreOptions options = options_for(directory, 100, 30000, 30000);
  Model model(100, options.layout);
  auto store = StateStore::create(options);
  run_both(*store, model, creation_plan(100), 1, 1);
  store->checkpoint("x");
  options.warm_bytes = store->report().slab_bytes + 10 * options.layout.record_bytes(Part::kPublic);
  store.reset();
  store = StateStore::open(options);
  // 40 nodes act now, 40 in the next round, 20 not at all as far as anyone knows.
  auto now = std::make_shared<AccessPlan>();
  auto next = std::make_shared<AccessPlan>();
  for (NodeId node = 0; node < 40; ++node) now->add(StepKind::kUpdate, node);
  for (NodeId node = 40; node < 80; ++node) next->add(StepKind::kUpdate, node);
  store->plan(now);
  store->plan(next);
  run_round(*store, *now, model, 2, 1);
  model.run(*now, 2);
  EXPECT_GE(store->report().cold_nodes, 15u);
  run_round(*store, *next, model, 3, 1);
  model.run(*next, 3);
  expect_equal(*store, model);
}

TEST(StateStore, KeepsAllZeroRecordsForFree) {
  TemporaryDirectory directory;
  StoreOptions options = options_for(directory, 100, 4000, 200000);
  auto store = StateStore::create(options);
  store->plan(creation_plan(100));
  store->begin_round([](NodeLease lease) {
    std::memset(lease.next(), 1, 4000);
    lease.commit();
  });
  store->end_round();
  store->checkpoint("x");
  EXPECT_EQ(store->report().slab_bytes, 100 * options.layout.record_bytes(Part::kPublic));
  std::vector<NodeId> all(100);
  for (NodeId node = 0; node < 100; ++node) all[node] = node;
  store->demote(all);
  store->checkpoint("y");
  EXPECT_EQ(store->report().slab_bytes, 0u);
  EXPECT_EQ(store->verify().zero_records, 100u);
}

TEST(StateStore, RefusesAStoreOfAnotherRunAndLeavesItAlone) {
  TemporaryDirectory directory;
  const StoreOptions options = options_for(directory, 30);
  Model model(30, options.layout);
  {
    auto store = StateStore::create(options);
    run_both(*store, model, creation_plan(30), 1, 1);
    store->checkpoint("x");
    EXPECT_THAT(error_of([&] { StateStore::open(options); }), HasSubstr("is in use by process"));
  }
  StoreOptions other = options;
  other.nodes = 31;
  EXPECT_THAT(error_of([&] { StateStore::open(other); }), HasSubstr("it has 30 nodes, this run 31"));
  other = options;
  other.layout = layout_of(20004, 20000);
  EXPECT_THAT(error_of([&] { StateStore::open(other); }), AllOf(HasSubstr("its layout differs"), HasSubstr("'x'")));
  EXPECT_THAT(error_of([&] { StateStore::create(options); }), HasSubstr("there is a store in"));
  other = options;
  other.directory = directory.path() / "nothing";
  EXPECT_THAT(error_of([&] { StateStore::open(other); }), HasSubstr("there is no store in"));
  EXPECT_FALSE(std::filesystem::exists(other.directory));
  other = options;
  other.ram_bytes = StateStore::minimum_ram(options) - 1;
  EXPECT_THAT(error_of([&] { StateStore::open(other); }),
              HasSubstr(fmt::format("{} bytes", StateStore::minimum_ram(options))));
  auto store = StateStore::open(options);
  expect_equal(*store, model);
}

TEST(StateStore, WorksWithTheLeastRamItNames) {
  TemporaryDirectory directory;
  StoreOptions options = options_for(directory, 40);
  options.ram_bytes = StateStore::minimum_ram(options);
  Model model(40, options.layout);
  auto store = StateStore::create(options);
  run_both(*store, model, creation_plan(40), 1, 2);
  std::mt19937_64 random(3);
  for (std::uint64_t round = 0; round < 3; ++round) run_both(*store, model, gossip_plan(40, 8, random), round, 2);
  expect_equal(*store, model);
}

TEST(StateStore, RefusesTheColdTierOfAnotherStore) {
  TemporaryDirectory directory;
  StoreOptions one = options_for(directory, 10);
  StoreOptions two = one;
  two.directory = directory.path() / "two";
  StateStore::create(one);
  StateStore::create(two);
  one.cold_directory = two.directory / "cold";
  EXPECT_THAT(error_of([&] { StateStore::open(one); }), HasSubstr("belongs to another store"));
}

TEST(StateStore, ReportsWhatItAskedForAndWhatItGot) {
  TemporaryDirectory directory(fast_directory());
  StoreOptions options = options_for(directory, 10);
  options.io = IoEngine::kDirect;
  auto store = StateStore::create(options);
  const StoreReport report = store->report();
  std::uint64_t charged = 0;
  for (const std::uint64_t bytes : report.memory) charged += bytes;
  EXPECT_LE(charged, options.ram_bytes);
  EXPECT_THAT(report.modes, ::testing::Contains(::testing::Field(&ModeReport::what, "slab I/O")));
}

TEST(StateStore, UsesAnArenaThatItsOwnerBrings) {
  TemporaryDirectory directory;
  StoreOptions options = options_for(directory, 60);
  std::vector<std::byte> memory((4 << 20) + kBlockBytes);
  void* start = memory.data();
  std::size_t space = memory.size();
  start = std::align(kBlockBytes, 4 << 20, start, space);
  options.region = {static_cast<std::byte*>(start), 4 << 20};
  options.ram_bytes = StateStore::minimum_ram(options) + (4 << 20);
  Model model(60, options.layout);
  auto store = StateStore::create(options);
  auto plan = creation_plan(60);
  store->plan(plan);
  bool inside = true;
  store->begin_round([&](NodeLease lease) {
    inside = inside && lease.next() >= options.region.data() && lease.next() < options.region.data() + (4 << 20);
    lease.commit();
  });
  store->end_round();
  EXPECT_TRUE(inside);
}

}  // namespace
}  // namespace shoal::testing
