#include "planner/residency.h"

#include <gtest/gtest.h>

#include "store/use_index.h"
#include "tests/planner/small_run.h"

namespace shoal {
namespace {

constexpr NodeId kNodes = 300;

TEST(Residency, RoundsTouchNoDiskWithRamForEverything) {
  const Residency residency = rehearse(small_run(kNodes, 2.5));
  EXPECT_EQ(residency.total.bytes_read, 0);
  EXPECT_EQ(residency.total.bytes_written, 0);
  EXPECT_EQ(residency.slab_bytes, 0);
  EXPECT_EQ(residency.round.hit_rate(Part::kPublic), 1);
}

TEST(Residency, RoundsTouchTheDiskWithAFewPerCentLessThanTheRamForEverything) {
  RunDescription run = small_run(4000, 0, 3);
  run.store.old_versions = UseIndex(ring_round(4000), 4000, 0).extra_versions();
  const std::uint64_t resident = MemoryPlan::resident_ram(run.store);
  run.store.ram_bytes = resident;
  EXPECT_EQ(rehearse(run).total.bytes_read + rehearse(run).total.bytes_written, 0);
  run.store.ram_bytes = resident - resident / 20;
  EXPECT_GT(rehearse(run).round.bytes_read, 0);
  EXPECT_GT(rehearse(run).round.bytes_written, 0);
}

// A record that is put into the cold tier is written again by compactions; one that is not, is not.
TEST(Residency, TheColdTierMovesMoreThanItsRecords) {
  RunDescription run = small_run(kNodes, 0);
  const Residency warm = rehearse(run);
  EXPECT_EQ(warm.total.cold_bytes_written, 0);
  run.store.warm_bytes = kNodes * run.store.layout.state_bytes() / 2;
  const Residency cold = rehearse(run);
  EXPECT_GT(cold.total.cold_bytes_written, 0);
  EXPECT_GT(cold.total.bytes_written, warm.total.bytes_written + cold.total.cold_bytes_written);
  EXPECT_GT(cold.total.bytes_read, warm.total.bytes_read + cold.total.cold_bytes_written);
}

TEST(Residency, WithTheLeastRamARingMovesEveryRecordOnceARoundEachWay) {
  const RunDescription run = small_run(kNodes, 0);
  const Residency residency = rehearse(run);
  const double state = static_cast<double>(kNodes * run.store.layout.state_bytes());
  EXPECT_NEAR(residency.round.bytes_read, state, 0.1 * state);
  EXPECT_NEAR(residency.round.bytes_written, state, 0.1 * state);
  EXPECT_EQ(residency.round.steps, kNodes);
  EXPECT_EQ(residency.round.neighbour_reads, 2 * kNodes);
  EXPECT_EQ(residency.round.local_steps, kNodes);
}

TEST(Residency, MoreRamNeverMovesMore) {
  double before = rehearse(small_run(kNodes, 0)).total.bytes_read;
  for (const double share : {0.1, 0.25, 0.5, 0.75, 1.0}) {
    const double now = rehearse(small_run(kNodes, share)).total.bytes_read;
    EXPECT_LE(now, before) << share;
    before = now;
  }
}

// A run that is rehearsed to its end, and one that is cut short and continued by its mean round.
TEST(Residency, ALongRunIsContinuedByItsMeanRound) {
  const RunDescription shorter = small_run(40'000, 0.2, 6);
  RunDescription longer = shorter;
  longer.rounds = 60;
  const Residency few = rehearse(shorter);
  const Residency many = rehearse(longer);
  EXPECT_EQ(few.rounds_rehearsed, 6);
  EXPECT_EQ(many.rounds_rehearsed, 6);
  EXPECT_NEAR(many.round.bytes_read, few.round.bytes_read, 0.02 * few.round.bytes_read);
  EXPECT_NEAR(many.total.bytes_read - few.total.bytes_read, 54 * few.round.bytes_read, 2 * few.round.bytes_read);
}

TEST(Residency, EvaluationsCostWhatTheyRead) {
  RunDescription without = small_run(kNodes, 0.2, 8);
  RunDescription with = without;
  with.eval_every = 2;
  with.evaluated = {3, 100, 200};
  EXPECT_GT(rehearse(with).total.bytes_read, rehearse(without).total.bytes_read);
}

TEST(Residency, ACheckpointKeepsOldVersionsOnDisk) {
  RunDescription run = small_run(kNodes, 0.2, 8);
  const Residency without = rehearse(run);
  run.checkpoint_every = 2;
  const Residency with = rehearse(run);
  EXPECT_GT(with.checkpoint_bytes_written, 0);
  EXPECT_EQ(without.checkpoint_bytes_written, 0);
  EXPECT_GT(with.most_slots[0], without.most_slots[0]);
  EXPECT_EQ(with.checkpoints, 4);
  EXPECT_NEAR(with.total.bytes_written - without.total.bytes_written, 4 * with.checkpoint_bytes_written,
              2 * with.checkpoint_bytes_written)
      << "what a checkpoint wrote, an eviction need not";
  // At the end all records are on disk, those that stay in RAM as well.
  EXPECT_EQ(with.slab_bytes, static_cast<double>(kNodes * run.store.layout.state_bytes()));
}

TEST(Residency, ScalesLikeTheRunItStandsFor) {
  const Residency one = rehearse(small_run(kNodes, 0.2));
  const Residency ten = one.scaled(10, 10);
  EXPECT_DOUBLE_EQ(ten.round.bytes_read, 10 * one.round.bytes_read);
  EXPECT_DOUBLE_EQ(ten.slab_bytes, 10 * one.slab_bytes);
  EXPECT_DOUBLE_EQ(ten.round.hit_rate(Part::kPublic), one.round.hit_rate(Part::kPublic));
}

}  // namespace
}  // namespace shoal
