// Disks that are too small: known before the run starts, or a clear end in the middle of it, with nothing lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/e2e/program.h"
#include "tests/e2e/small_disk.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

TEST(FullDisk, EndsTheRunClearlyAndItGoesOnWhenThereIsSpace) {
  const SmallDisk disk("256m");
  if (disk.error() != 0) GTEST_SKIP() << "NOT TESTED: mounting a tmpfs: " << std::strerror(disk.error());
  const TemporaryDirectory here;
  const Arguments arguments = {
      "--quiet",  "--model", "quadratic:10000:1:0.1", "--nodes", "40", "--graph", "torus", "--threads", "2",
      "--rounds", "100"};
  const auto reference = run_to_summary(arguments + Arguments{"--ram", "1GiB"}, here.path(), "whole");
  ASSERT_TRUE(reference.is_object());

  const std::string ram = std::to_string(least_ram(arguments, here.path()));
  const Arguments pieces = arguments + Arguments{"--ram",  ram,       "--checkpoint-every",           "2", "--out",
                                                 "pieces", "--store", disk.path().string() + "/store"};
  Program program(pieces, here.path());
  wait_until(program, [&] { return rounds_in(here.path() / "pieces") >= 5; });
  disk.fill();
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  ASSERT_EQ(lines_of(outcome.err).size(), 1U) << outcome.err;
  EXPECT_THAT(outcome.err, testing::HasSubstr("No space left on device"));
  EXPECT_THAT(outcome.err, testing::HasSubstr("free some space"));
  EXPECT_LT(metrics_of(here.path() / "pieces").size(), 100U) << "it was over before the disk was full";

  disk.clear();
  const Outcome resumed = run_program(pieces + Arguments{"--resume"}, here.path());
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(summary_of(here.path() / "pieces")["state_hash"], reference["state_hash"]);
}

// Records of 40 KB in files that grow by 64 MiB: what counts is not the state.
class TooSmallDisk : public testing::Test {
 protected:
  static constexpr int kNodes = 200;
  Arguments arguments(const fs::path& store) const {
    return {"--quiet",
            "--model",
            "quadratic:10000:1:0.1",
            "--nodes",
            std::to_string(kNodes),
            "--graph",
            "torus",
            "--threads",
            "1",
            "--rounds",
            "3",
            "--store-io",
            "posix",
            "--ram",
            "15MiB",
            "--store",
            store.string()};
  }
  void expect_refusal(const Outcome& outcome) const {
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_THAT(outcome.err, testing::HasSubstr("too small"));
    EXPECT_THAT(outcome.err, testing::HasSubstr("too little"));
    EXPECT_FALSE(fs::exists(here_.path() / "shoal-run"));
  }
  const TemporaryDirectory here_;
};

TEST_F(TooSmallDisk, IsRefusedBeforeAnythingIsWritten) {
  const SmallDisk disk("100m");
  if (disk.error() != 0) GTEST_SKIP() << "NOT TESTED: mounting a tmpfs: " << std::strerror(disk.error());
  expect_refusal(run_program(arguments(disk.path() / "store"), here_.path()));
  EXPECT_TRUE(fs::is_empty(disk.path()));
}

TEST_F(TooSmallDisk, ThatIsLargeEnoughForThePlanIsLargeEnoughForTheRun) {
  const SmallDisk disk("140m");
  if (disk.error() != 0) GTEST_SKIP() << "NOT TESTED: mounting a tmpfs: " << std::strerror(disk.error());
  const Outcome outcome = run_program(arguments(disk.path() / "store"), here_.path());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(TooSmallDisk, IsSoForTwoRanksThatEachWouldFit) {
  const SmallDisk disk("200m");
  if (disk.error() != 0) GTEST_SKIP() << "NOT TESTED: mounting a tmpfs: " << std::strerror(disk.error());
  expect_refusal(run_program(arguments(disk.path() / "store"), here_.path(), on_ranks(2)));
  EXPECT_TRUE(fs::is_empty(disk.path()));
  const SmallDisk second("200m");
  ASSERT_EQ(second.error(), 0);
  // One each: {rank} tells them apart.
  fs::create_symlink(disk.path(), here_.path() / "disk0");
  fs::create_symlink(second.path(), here_.path() / "disk1");
  const Outcome apart = run_program(arguments(here_.path() / "disk{rank}"), here_.path(), on_ranks(2));
  EXPECT_EQ(apart.code, 0) << apart.err;
}

TEST_F(TooSmallDisk, IsLookedAtWhenARunGoesOnWithLessRam) {
  const SmallDisk disk("200m");
  if (disk.error() != 0) GTEST_SKIP() << "NOT TESTED: mounting a tmpfs: " << std::strerror(disk.error());
  const Arguments run = {"--quiet",
                         "--model",
                         "quadratic:10000:1:0.1",
                         "--nodes",
                         "1000",
                         "--graph",
                         "ring",
                         "--store-io",
                         "posix",
                         "--store",
                         disk.path().string() + "/store",
                         "--checkpoint-every",
                         "2"};
  // All in RAM, there is one checkpoint and nothing else.
  const Outcome first = run_program(run + Arguments{"--ram", "400MiB", "--rounds", "2"}, here_.path());
  ASSERT_EQ(first.code, 0) << first.err;
  const auto before = contents_of(disk.path());
  const Arguments on = run + Arguments{"--rounds", "6", "--resume"};
  const Outcome refused = run_program(on + Arguments{"--ram", "20MiB"}, here_.path());
  EXPECT_EQ(refused.code, 1) << refused.err;
  EXPECT_THAT(refused.err, testing::HasSubstr("too small"));
  EXPECT_EQ(contents_of(disk.path()), before);
}

}  // namespace
}  // namespace shoal
