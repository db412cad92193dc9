#include "planner/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/error.h"
#include "tests/planner/small_run.h"

namespace shoal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TEST(Sweep, DoublesWhereThatLeadsFromEndToEnd) {
  const SweepRange range = parse_sweep("ram=1GiB..8GiB");
  EXPECT_EQ(range.what, SweepRange::What::kRam);
  EXPECT_THAT(range.values, ElementsAre(kGiB, 2 * kGiB, 4 * kGiB, 8 * kGiB));
}

TEST(Sweep, HasBothEndsAndEvenNumbersOfNodesBetween) {
  const SweepRange range = parse_sweep("nodes=1001..100000");
  EXPECT_EQ(range.what, SweepRange::What::kNodes);
  EXPECT_EQ(range.values.front(), 1001U);
  EXPECT_EQ(range.values.back(), 100'000U);
  EXPECT_TRUE(std::is_sorted(range.values.begin(), range.values.end()));
  for (std::size_t i = 1; i < range.values.size(); ++i) EXPECT_EQ(range.values[i] % 2, 0U);
  EXPECT_THAT(parse_sweep("nodes=64..64").values, ElementsAre(64));
}

TEST(Sweep, OfFewNumbersHasEachOnceAndNoneBeyondTheEnds) {
  EXPECT_THAT(parse_sweep("nodes=1..3").values, ElementsAre(1, 2, 3));
  EXPECT_THAT(parse_sweep("nodes=5..6").values, ElementsAre(5, 6));
  EXPECT_THAT(parse_sweep("ram=10..13").values, ElementsAre(10, 11, 12, 13));
}

TEST(Sweep, RefusesWhatIsNoRange) {
  for (const char* text : {"", "ram", "ram=1GiB", "ram=4GiB..1GiB", "disk=1..2", "nodes=0..9", "nodes=a..b", "ram=..",
                           "nodes=1..99999999999"}) {
    EXPECT_THROW(parse_sweep(text), Error) << text;
  }
}

class SweepOutput : public testing::Test {
 protected:
  static std::vector<SweepPoint> points(const SweepRange& range, std::optional<Profile> profile = std::nullopt) {
    return run_sweep(Planner(describe_small(400, 0.2), roomy_machine(), std::move(profile)), range);
  }
  // From too little to more than all of it.
  static SweepRange ram_range() {
    const std::uint64_t least = small_run(400, 0).least_ram_bytes;
    return {SweepRange::What::kRam, {least / 2, least, least + (4 << 20), 4 * least}};
  }
};

TEST_F(SweepOutput, TableAndPlotHaveALineForEachValue) {
  const std::vector<SweepPoint> all = points(ram_range());
  ASSERT_EQ(all.size(), 4U);
  EXPECT_FALSE(all[0].plan.fits());
  EXPECT_GT(all[1].plan.residency.round.bytes_read, all[2].plan.residency.round.bytes_read);
  EXPECT_EQ(all[3].plan.residency.round.bytes_read, 0);
  const std::string text = sweep_text(ram_range(), all);
  EXPECT_THAT(text, HasSubstr("RAM"));
  EXPECT_THAT(text, HasSubstr("too little"));
  EXPECT_THAT(text, HasSubstr(std::string(50, '#')));  // the highest
  EXPECT_EQ(std::count(text.begin(), text.end(), '|'), 4);
}

TEST_F(SweepOutput, ShowsTimeWhereItIsKnown) {
  const SweepRange range = ram_range();
  EXPECT_THAT(sweep_text(range, points(range, small_profile())), HasSubstr("time of a round"));
  EXPECT_THAT(sweep_text(range, points(range)), HasSubstr("bytes to and from disk"));
}

TEST_F(SweepOutput, CsvHasOneLineForEachValueAndAsManyFields) {
  const SweepRange range = ram_range();
  const std::string csv = sweep_csv(range, points(range, small_profile()));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), ','), 5 * 9);
  EXPECT_THAT(csv, testing::StartsWith("ram,fits,"));
}

TEST_F(SweepOutput, APointThatCannotBeHasItsReason) {
  const Describe small = describe_small(400, 0.2);
  const Planner planner(
      [&](const RunChange& change) {
        if (change.nodes == NodeId{10}) throw Error("no such graph", ExitCode::kUsage);
        return small(change);
      },
      roomy_machine(), std::nullopt);
  const SweepRange range{SweepRange::What::kNodes, {10, 100}};
  const std::vector<SweepPoint> all = run_sweep(planner, range);
  EXPECT_THAT(sweep_text(range, all), HasSubstr("no such graph"));
  EXPECT_EQ(sweep_json(range, all)[0]["error"], "no such graph");
  EXPECT_EQ(sweep_json(range, all)[1]["nodes"], 100);
}

}  // namespace
}  // namespace shoal
