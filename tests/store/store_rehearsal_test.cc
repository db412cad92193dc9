// A rehearsal must say what the store then does: it is compared with a real store, on a device in memory.
#include "store/store_rehearsal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "store/error.h"
#include "store/memory_plan.h"
#include "tests/store/store_harness.h"

namespace shoal::testing {
namespace {

constexpr NodeId kNodes = 200;
constexpr std::size_t kDegree = 4;

StoreOptions options_with(double share_of_state) {
  StoreOptions options;
  options.layout = layout_of(8000, 16000);
  options.nodes = kNodes;
  options.max_reads_per_step = kDegree;
  options.prefetch_bytes = 10 * options.layout.state_bytes();
  options.ram_bytes =
      MemoryPlan::minimum(options) +
      static_cast<std::uint64_t>(share_of_state * kNodes * static_cast<double>(options.layout.state_bytes()));
  return options;
}

// The same rounds, really run.
class Real {
 public:
  explicit Real(StoreOptions options) : model_(options.nodes, options.layout) {
    options.directory = folder_.path() / "store";
    store_ = StateStore::create(options);
  }
  RoundReport run(std::shared_ptr<const AccessPlan> plan) {
    return run_both(*store_, model_, std::move(plan), seed_++, 2);
  }
  StateStore& store() { return *store_; }

 private:
  TemporaryDirectory folder_;
  Model model_;
  std::unique_ptr<StateStore> store_;
  std::uint64_t seed_ = 1;
};

void expect_close(std::uint64_t predicted, std::uint64_t measured, double tolerance) {
  const auto distance = std::abs(static_cast<double>(predicted) - static_cast<double>(measured));
  EXPECT_LE(distance, tolerance * static_cast<double>(measured) + 1)
      << predicted << " predicted, " << measured << " measured";
}

class RehearsalTest : public ::testing::TestWithParam<double> {};

TEST_P(RehearsalTest, MovesTheBytesThatTheStoreMoves) {
  const StoreOptions options = options_with(GetParam());
  StoreRehearsal rehearsal(options);
  Real real(options);
  rehearsal.plan(creation_plan(kNodes));
  rehearsal.run();
  real.run(creation_plan(kNodes));
  std::mt19937_64 random(7);
  std::uint64_t read[2] = {0, 0};
  std::uint64_t written[2] = {0, 0};
  for (int round = 0; round < 6; ++round) {
    const auto plan = gossip_plan(kNodes, kDegree, random);
    rehearsal.plan(plan);
    const RoundReport predicted = rehearsal.run();
    const RoundReport measured = real.run(plan);
    EXPECT_EQ(predicted.steps, measured.steps);
    for (const Part part : kParts) {
      EXPECT_EQ(predicted.hits[index(part)] + predicted.misses[index(part)],
                measured.hits[index(part)] + measured.misses[index(part)]);
    }
    read[0] += predicted.slab_bytes_read;
    read[1] += measured.slab_bytes_read;
    written[0] += predicted.slab_bytes_written;
    written[1] += measured.slab_bytes_written;
  }
  // Rounds are not known ahead here, so among records that may never be used again the choice is a matter of timing.
  expect_close(read[0], read[1], 0.1);
  expect_close(written[0], written[1], 0.1);
  expect_close(rehearsal.report().slab_bytes, real.store().report().slab_bytes, 0.1);
  EXPECT_EQ(rehearsal.report().slab_file_bytes, real.store().report().slab_file_bytes);
}
INSTANTIATE_TEST_SUITE_P(Ram, RehearsalTest, ::testing::Values(0.0, 0.1, 0.5, 0.9, 2.0));

TEST(StoreRehearsal, TouchesNoDiskWhenEverythingFits) {
  StoreRehearsal rehearsal(options_with(2));
  rehearsal.plan(creation_plan(kNodes));
  rehearsal.run();
  std::mt19937_64 random(3);
  rehearsal.plan(gossip_plan(kNodes, kDegree, random));
  const RoundReport report = rehearsal.run();
  EXPECT_EQ(report.slab_bytes_read + report.slab_bytes_written, 0U);
  EXPECT_EQ(report.misses[0] + report.misses[1], 0U);
  EXPECT_EQ(rehearsal.report().slab_bytes, 0U);
}

TEST(StoreRehearsal, ACheckpointWritesWhatIsNewerThanOnDiskAndKeepsItsSlots) {
  const StoreOptions options = options_with(2);
  StoreRehearsal rehearsal(options);
  rehearsal.plan(creation_plan(kNodes));
  rehearsal.run();
  // Private records are zeros still.
  EXPECT_EQ(rehearsal.checkpoint(), kNodes * options.layout.record_bytes(Part::kPublic));
  EXPECT_EQ(rehearsal.checkpoint(), 0U);
  std::mt19937_64 random(3);
  rehearsal.plan(gossip_plan(kNodes, kDegree, random));
  rehearsal.run();
  EXPECT_EQ(rehearsal.checkpoint(), kNodes * options.layout.state_bytes());
  EXPECT_EQ(rehearsal.report().slab_bytes, kNodes * options.layout.state_bytes());
  EXPECT_GE(rehearsal.report().slab_file_bytes,
            kNodes * (options.layout.state_bytes() + options.layout.record_bytes(Part::kPublic)));
}

TEST(StoreRehearsal, RandomRoundsGoThroughWithTheLeastRam) {
  StoreRehearsal rehearsal(options_with(0));
  rehearsal.plan(creation_plan(kNodes));
  rehearsal.run();
  std::mt19937_64 random(11);
  for (int round = 0; round < 20; ++round) {
    const auto plan = random_plan(kNodes, kDegree, random);
    rehearsal.plan(plan);
    EXPECT_EQ(rehearsal.run().steps, plan->size());
  }
}

TEST(StoreRehearsal, NodesGoColdWhenTheSlabsMayNotGrow) {
  StoreOptions options = options_with(0.1);
  options.warm_bytes = kNodes * options.layout.state_bytes() / 2;
  StoreRehearsal rehearsal(options);
  rehearsal.plan(creation_plan(kNodes));
  rehearsal.run();
  std::mt19937_64 random(5);
  RoundReport report;
  for (int round = 0; round < 3; ++round) {
    rehearsal.plan(gossip_plan(kNodes, kDegree, random));
    report = rehearsal.run();
  }
  EXPECT_GT(report.cold_bytes_written, 0U);
  EXPECT_GT(report.cold_bytes_read, 0U);
  const StoreReport after = rehearsal.report();
  EXPECT_LE(after.slab_bytes, options.warm_bytes);
  EXPECT_GT(after.cold_nodes, 0U);
  EXPECT_GT(after.cold_bytes, after.cold_nodes * options.layout.record_bytes(Part::kPublic) / 2);
}

TEST(StoreRehearsal, NeedsNoMemoryForTheFramesItPlansWith) {
  StoreOptions options = options_with(0);
  options.layout = layout_of(8 << 20, 8 << 20);
  options.ram_bytes = std::uint64_t{1} << 40;
  StoreRehearsal rehearsal(options);
  rehearsal.plan(creation_plan(kNodes));
  EXPECT_EQ(rehearsal.run().steps, kNodes);
}

// A rank whose first node of every ten reads a guest, and whose nodes others read all the time.
constexpr NodeId kGuests = 20;

StoreOptions options_of_a_rank(double share_of_state) {
  StoreOptions options = options_with(0);
  options.guests = kGuests;
  options.serving_frames = 4;
  options.ram_bytes =
      MemoryPlan::minimum(options) +
      static_cast<std::uint64_t>(share_of_state * kNodes * static_cast<double>(options.layout.state_bytes()));
  return options;
}

std::shared_ptr<const AccessPlan> plan_of_a_rank() {
  auto plan = std::make_shared<AccessPlan>();
  for (NodeId node = 0; node < kNodes; ++node) {
    const NodeId reads[] = {(node + 1) % kNodes, kNodes + node / 10};
    plan->add(StepKind::kUpdate, node, std::span(reads, node % 10 == 0 ? 2 : 1));
    plan->hold(node);
  }
  return plan;
}

std::vector<PeerRead> reads_of_all(NodeId from) {
  std::vector<PeerRead> reads;
  for (NodeId i = 0; i < kNodes; ++i) {
    reads.push_back({(i + from) % kNodes, static_cast<float>(i) / static_cast<float>(kNodes)});
  }
  return reads;
}

struct RankRehearsed {
  RoundReport report;
  std::uint64_t served = 0;
  std::vector<int> fetched;
};

RankRehearsed rehearse_a_rank(double share_of_state, const std::vector<PeerRead>& peers) {
  RankRehearsed result;
  result.fetched.assign(kGuests, 0);
  StoreRehearsal rehearsal(options_of_a_rank(share_of_state), [&](NodeId guest) { ++result.fetched[guest]; });
  rehearsal.plan(creation_plan(kNodes));
  rehearsal.run();
  for (int round = 0; round < 3; ++round) {
    rehearsal.plan(plan_of_a_rank(), peers);
    const std::uint64_t before = rehearsal.records_served();
    result.fetched.assign(kGuests, 0);
    result.report = rehearsal.run();
    result.served = rehearsal.records_served() - before;
  }
  return result;
}

TEST(StoreRehearsal, GetsEveryGuestOnceARoundWhileThereIsRoom) {
  for (const double share : {0.1, 2.0}) {
    const RankRehearsed rank = rehearse_a_rank(share, {});
    EXPECT_EQ(rank.report.guest_fetches, kGuests);
    EXPECT_THAT(rank.fetched, ::testing::Each(1));
    EXPECT_EQ(rank.served, 0U);
  }
}

TEST(StoreRehearsal, ServesOthersFromDiskWhatIsNotInRam) {
  // Far from where this rank is in its round.
  const RankRehearsed little = rehearse_a_rank(0, reads_of_all(kNodes / 2));
  const RankRehearsed quiet = rehearse_a_rank(0, {});
  EXPECT_GT(little.served, kNodes / 2);
  EXPECT_LE(little.served, kNodes);
  EXPECT_GE(little.report.slab_bytes_read,
            quiet.report.slab_bytes_read + little.served / 2 * options_with(0).layout.record_bytes(Part::kPublic));
  const RankRehearsed all = rehearse_a_rank(2, reads_of_all(kNodes / 2));
  EXPECT_EQ(all.served, 0U);
  EXPECT_EQ(all.report.slab_bytes_read, 0U);
}

TEST(StoreRehearsal, TooLittleRamIsRefusedAsTheStoreRefusesIt) {
  StoreOptions options = options_with(0);
  options.ram_bytes -= 1;
  EXPECT_THROW(StoreRehearsal{options}, Error);
}

TEST(StoreRehearsal, APlanThatCannotBeIsRefusedAndTheNextOneRuns) {
  StoreRehearsal rehearsal(options_with(0.1));
  auto plan = std::make_shared<AccessPlan>();
  plan->add(StepKind::kCreate, kNodes);
  EXPECT_THROW(rehearsal.plan(plan), Error);
  rehearsal.plan(creation_plan(kNodes));
  EXPECT_EQ(rehearsal.run().steps, kNodes);
}

}  // namespace
}  // namespace shoal::testing
