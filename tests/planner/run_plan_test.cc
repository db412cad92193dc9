#include "planner/run_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/advice.h"
#include "planner/plan_text.h"
#include "store/error.h"
#include "tests/planner/small_run.h"

namespace shoal {
namespace {

using testing::HasSubstr;

constexpr NodeId kNodes = 300;

RunPlan plan_of(double share, std::optional<Profile> profile = std::nullopt, Machine machine = roomy_machine()) {
  return Planner(describe_small(kNodes, share), machine, std::move(profile)).plan();
}

TEST(RunPlan, EveryByteOfARecordHasAName) {
  const RunPlan plan = plan_of(3);
  std::uint64_t bytes = 0;
  for (const StateItem& item : plan.per_node) bytes += item.bytes;
  // Nothing goes to disk, so there is no share of old versions.
  EXPECT_EQ(bytes, plan.run.store.layout.state_bytes());
}

TEST(RunPlan, RamLinesSumUpToThePeak) {
  const RunPlan plan = plan_of(0.5);
  std::uint64_t bytes = 0;
  for (const MemoryLine& line : plan.ram) bytes += line.bytes;
  EXPECT_EQ(bytes, plan.peak_rss_bytes);
  EXPECT_LE(plan.peak_rss_bytes, plan.run.ram_bytes + plan.run.library_bytes);
  EXPECT_GT(plan.peak_rss_bytes, plan.run.ram_bytes + plan.run.library_bytes - (1 << 20));
  for (const char* tag : {"arena", "cold", "io", "tables", "plan", "data"}) {
    EXPECT_TRUE(std::any_of(plan.ram.begin(), plan.ram.end(), [&](const auto& line) { return line.what == tag; }))
        << tag;
  }
}

TEST(RunPlan, TooLittleRamSaysByHowMuchAndWhatWouldFit) {
  const Describe describe = describe_small(kNodes, 0);
  const std::uint64_t least = describe({}).least_ram_bytes;
  const Planner planner(
      [&](RunChange change) {
        if (!change.ram_bytes) change.ram_bytes = least - 1000;
        return describe(change);
      },
      roomy_machine(), std::nullopt);
  const RunPlan plan = planner.plan();
  ASSERT_EQ(plan.misfits.size(), 1U);
  EXPECT_EQ(plan.misfits[0].what, "RAM");
  EXPECT_EQ(plan.misfits[0].needed - plan.misfits[0].available, 1000U);
  const Advice advice = advise(planner, plan);
  EXPECT_THAT(advice.changes, testing::Contains(HasSubstr("--ram")));
  EXPECT_THAT(advice.changes, testing::Contains(HasSubstr("--nodes")));
  EXPECT_THAT(plan_text(plan, advice, Formulas::kHidden), HasSubstr("does not fit"));
  EXPECT_FALSE(plan_json(plan, advice)["fits"].get<bool>());
}

TEST(RunPlan, TooLittleDiskListsChangesThatHaveBeenTriedAndFit) {
  Machine machine = roomy_machine();
  // Not even one slab file, which begins with 64 MiB: only a run that touches no disk fits.
  machine.disk_bytes = 40 << 20;
  const Planner planner(describe_small(kNodes, 0.1), machine, std::nullopt);
  const RunPlan plan = planner.plan();
  ASSERT_EQ(plan.misfits.size(), 1U);
  EXPECT_EQ(plan.misfits[0].what, "disk");
  EXPECT_EQ(plan.misfits[0].needed, plan.disk.need.total());
  const Advice advice = advise(planner, plan);
  EXPECT_THAT(advice.changes, testing::ElementsAre(HasSubstr("--ram")));
}

TEST(RunPlan, DeviceMemoryIsCheckedWhereItIsKnown) {
  const auto plan_with = [](std::uint64_t needed, std::uint64_t there) {
    Machine machine = roomy_machine();
    machine.device_memory_bytes = there;
    const Describe describe = [=](const RunChange& change) {
      RunDescription run = describe_small(kNodes, 1)(change);
      run.device_memory_bytes = needed;
      return run;
    };
    return Planner(describe, machine, std::nullopt).plan();
  };
  const auto text = [](const RunPlan& plan) { return plan_text(plan, {}, Formulas::kHidden); };
  const RunPlan too_little = plan_with(2000, 1000);
  ASSERT_EQ(too_little.misfits.size(), 1U);
  EXPECT_EQ(too_little.misfits[0].what, "device memory");
  EXPECT_TRUE(plan_with(2000, 2000).fits());
  const RunPlan not_known = plan_with(2000, 0);
  EXPECT_TRUE(not_known.fits());
  EXPECT_THAT(text(not_known), HasSubstr("not checked"));
  for (const RunPlan& plan : {too_little, plan_with(0, 0)}) {
    EXPECT_THAT(text(plan), testing::Not(HasSubstr("not checked")));
  }
}

TEST(RunPlan, ALargeRunIsSampledAndSaysSo) {
  const Planner planner(describe_small(200'000, 0.25), roomy_machine(), std::nullopt);
  const RunPlan plan = planner.plan();
  EXPECT_TRUE(plan.sampled());
  EXPECT_LT(plan.rehearsed_records, 200'000U);
  EXPECT_DOUBLE_EQ(plan.residency.round.steps, 200'000);
  EXPECT_THAT(plan_text(plan, {}, Formulas::kHidden), HasSubstr("sample"));
  // A smaller run with the same share, in full: the same bytes a node.
  const RunPlan whole = Planner(describe_small(20'000, 0.25), roomy_machine(), std::nullopt).plan();
  EXPECT_FALSE(whole.sampled());
  EXPECT_NEAR(plan.residency.round.bytes_read / 10, whole.residency.round.bytes_read,
              0.03 * whole.residency.round.bytes_read);
  EXPECT_NEAR(plan.residency.slab_bytes / 10, whole.residency.slab_bytes, 0.03 * whole.residency.slab_bytes);
}

TEST(RunPlan, WithoutAProfileThereIsNoTime) {
  const RunPlan plan = plan_of(0.5);
  EXPECT_FALSE(plan.time);
  EXPECT_THAT(plan_text(plan, {}, Formulas::kHidden), HasSubstr("calibrate"));
  EXPECT_TRUE(plan_json(plan, {})["time"].is_null());
}

TEST(RunPlan, TimeIsTheSlowestResource) {
  Profile profile = small_profile();
  RunPlan plan = plan_of(0, profile);
  EXPECT_EQ(plan.time->bottleneck, "compute");
  EXPECT_NEAR(plan.time->compute, kNodes * 1.01e-3 / 2, 1e-6);
  EXPECT_GE(plan.time->round, plan.time->compute + plan.time->mix);
  EXPECT_NEAR(plan.node_steps_per_second, kNodes / plan.time->round, 1);
  EXPECT_GE(plan.total_seconds, 10 * plan.time->round);

  profile.step_seconds = 1e-7;
  profile.disk_bytes_per_second = 1e7;
  plan = plan_of(0, profile);
  EXPECT_EQ(plan.time->bottleneck, "disk");
  EXPECT_DOUBLE_EQ(plan.time->round, plan.time->disk);
  EXPECT_THAT(plan_text(plan, {}, Formulas::kShown), HasSubstr("the bottleneck is disk"));
}

TEST(RunPlan, ReadingIsHiddenOnlyWhereRamHoldsAStepMoreThanAreAtWork) {
  RunDescription run = small_run(kNodes, 0);
  const Traffic round = rehearse(run).round;
  const double share = round.bytes_read / (round.bytes_read + round.bytes_written);
  ASSERT_GT(share, 0.1);
  const auto time = [&] { return round_time(run, round, roomy_machine(), small_profile()); };
  const RoundTime least = time();
  ASSERT_GT(least.processor(), least.disk);
  ASSERT_EQ(least.busy, 2);
  EXPECT_DOUBLE_EQ(least.round, least.processor() + share * least.disk / 2);
  run.store.ram_bytes += 16 * run.store.layout.state_bytes();
  EXPECT_DOUBLE_EQ(time().round, time().processor());
}

TEST(RunPlan, TheStoreUsesCoresThatWorkersLeave) {
  const RunDescription run = small_run(kNodes, 0);
  const Traffic round = rehearse(run).round;
  Profile profile = small_profile();
  profile.store_cpu_seconds_per_byte = 1e-9;
  Machine machine = roomy_machine();
  EXPECT_GT(round_time(run, round, machine, profile).store, 0);
  machine.cores = 4;
  EXPECT_EQ(round_time(run, round, machine, profile).store, 0);
}

TEST(RunPlan, RanksOfOneHostShareItsDisk) {
  const RunDescription run = small_run(kNodes, 0);
  Traffic round = rehearse(run).round;
  Machine machine = roomy_machine();
  const double alone = round_time(run, round, machine, small_profile()).disk;
  machine.ranks = 4;
  machine.hosts = 2;
  EXPECT_DOUBLE_EQ(round_time(run, round, machine, small_profile()).disk, 2 * alone);
  machine.network_bytes_per_second = 1e6;
  const auto record = static_cast<double>(run.store.layout.record_bytes(Part::kPublic));
  round.far_fetches = 1e9 / record;
  const RoundTime slow = round_time(run, round, machine, small_profile());
  EXPECT_EQ(slow.bottleneck, "network");
  EXPECT_DOUBLE_EQ(slow.network, 2e3);  // both ranks of the host
  round.near_fetches = std::exchange(round.far_fetches, 0);
  EXPECT_DOUBLE_EQ(round_time(run, round, machine, small_profile()).network, 0.1);
}

TEST(RunPlan, RanksOfOneHostAreSlowerThanTheirShareOfItsThreads) {
  RunDescription run = small_run(kNodes, 0.25);
  run.threads = 1;
  const Traffic round = rehearse(run).round;
  Machine machine = roomy_machine();
  machine.ranks = 2;
  const RoundTime together = round_time(run, round, machine, small_profile());
  machine.hosts = 2;
  machine.cores = 1;
  const RoundTime apart = round_time(run, round, machine, small_profile());
  EXPECT_DOUBLE_EQ(together.compute, 1.25 * apart.compute);
  EXPECT_DOUBLE_EQ(together.mix, 1.25 * apart.mix);
  EXPECT_DOUBLE_EQ(together.meeting, 0.5);
  EXPECT_DOUBLE_EQ(together.round, std::max({together.processor(), together.disk, together.network}) + 0.5);
  EXPECT_EQ(apart.meeting, 0);
}

TEST(RunPlan, RecordsThatAreAskedForTakeProcessorTimeAndNoCopyByTheStore) {
  RunDescription run = small_run(kNodes, 0);
  run.threads = 1;
  Traffic round = rehearse(run).round;
  Machine machine = roomy_machine();
  machine.ranks = 2;
  const Profile profile = small_profile();
  const double without = round_time(run, round, machine, profile).store;
  const double copy = static_cast<double>(run.store.layout.record_bytes(Part::kPublic)) / 1e10;
  round.near_fetches = 100;
  EXPECT_NEAR(round_time(run, round, machine, profile).store, without + 100 * copy, 1e-9);
  round.served = 60;
  EXPECT_NEAR(round_time(run, round, machine, profile).store, without + 40 * copy + 60 * 1e-4, 1e-9);
}

TEST(RunPlan, AdviceNamesTheRamThatIsWorthHaving) {
  Profile profile = small_profile();
  profile.step_seconds = 1e-6;
  const Planner planner(describe_small(kNodes, 0.3), roomy_machine(), profile);
  const RunPlan plan = planner.plan();
  const Advice advice = advise(planner, plan);
  ASSERT_TRUE(advice.smallest_fast_ram);
  EXPECT_LE(*advice.smallest_fast_ram, advice.most_useful_ram);
  RunChange change;
  change.ram_bytes = *advice.smallest_fast_ram;
  const double there = planner.plan(change).time->round;
  change.ram_bytes = advice.most_useful_ram;
  const RunPlan best = planner.plan(change);
  EXPECT_LE(there, 1.03 * best.time->round);
  EXPECT_EQ(best.residency.round.bytes_read, 0);
}

TEST(RunPlan, ExplainsEveryLineAndHidesItOtherwise) {
  const RunPlan plan = plan_of(0.5, small_profile());
  const std::string shown = plan_text(plan, {}, Formulas::kShown);
  const std::string hidden = plan_text(plan, {}, Formulas::kHidden);
  EXPECT_THAT(shown, HasSubstr("2000 x 4"));
  EXPECT_THAT(hidden, testing::Not(HasSubstr("2000 x 4")));
  EXPECT_LT(hidden.size(), shown.size());
}

TEST(RunPlan, DurationsReadWell) {
  EXPECT_EQ(duration_text(12.5e-6), "12.5 us");
  EXPECT_EQ(duration_text(0.0125), "12.5 ms");
  EXPECT_EQ(duration_text(35), "35 s");
  EXPECT_EQ(duration_text(600), "10 min");
  EXPECT_EQ(duration_text(7500), "2 h 05 min");
}

}  // namespace
}  // namespace shoal
