// One rank fails in the middle of a run, while the others wait for it in one way or another: all end, with its message
// once, and go on from the last checkpoint when the cause is gone.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "tests/e2e/program.h"
#include "tests/e2e/small_disk.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class RanksFailMidRun : public testing::Test {
 protected:
  // What `rounds` rounds give, and so little RAM that they need the disk.
  void run_whole(const Arguments& how, const std::string& rounds) {
    const auto whole = run_to_summary(arguments_ + how + Arguments{"--ram", "256MiB", "--rounds", rounds}, here_.path(),
                                      "whole", on_ranks(2));
    ASSERT_TRUE(whole.is_object());
    little_ = {"--ram", std::to_string(whole["least_ram_bytes"].get<std::uint64_t>() + (64 << 10))};
  }

  // `rank` of two has an I/O error at its store's nth read.
  Outcome run_with_bad_disk(unsigned rank, unsigned nth, const Arguments& arguments) const {
    return run_program(arguments, here_.path(),
                       on_ranks_or_hung(2) + Arguments{FAULTY_RANK, std::to_string(rank), std::to_string(nth)});
  }

  static void expect_end(const Outcome& outcome, unsigned rank, const std::string& cause) {
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    const auto lines = own_lines(outcome.err);
    ASSERT_EQ(lines.size(), 1U) << outcome.err;
    EXPECT_THAT(lines[0], AllOf(HasSubstr(fmt::format("shoal-train: rank {} on ", rank)), HasSubstr(cause)));
  }

  void expect_resumed(const Arguments& arguments) const {
    const Outcome resumed = run_program(arguments + Arguments{"--resume"}, here_.path(), on_ranks_or_hung(2));
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    expect_same_results(here_.path() / "pieces", here_.path() / "whole");
  }

  const Arguments arguments_ = {"--quiet",          "--model",    "quadratic:20000:1:0.1",
                                "--nodes",          "40",         "--graph",
                                "random-regular:8", "--threads",  "1",
                                "--init",           "independent"};
  Arguments little_;
  TemporaryDirectory here_;
};

TEST_F(RanksFailMidRun, ByABadDiskAndGoOnWithAGoodOne) {
  run_whole({}, "30");
  const std::pair<unsigned, Arguments> cases[] = {
      {0, {}},
      {1, {}},
      // The store that fails serves a slow rank, and its owner has done its part of the round and waits to meet it.
      {1, {"--slow-rank", "0:20x"}},
  };
  for (const auto& [rank, how] : cases) {
    SCOPED_TRACE(testing::Message() << testing::PrintToString(how) << ", rank " << rank);
    const Arguments pieces =
        arguments_ + how + little_ + Arguments{"--rounds", "30", "--checkpoint-every", "2", "--out", "pieces"};
    expect_end(run_with_bad_disk(rank, 1000, pieces + Arguments{"--overwrite"}), rank, "Input/output error");
    const std::uint64_t done = rounds_in(here_.path() / "pieces");
    EXPECT_GT(done, 2U);
    EXPECT_LT(done, 30U);
    expect_resumed(pieces);
  }
}

TEST_F(RanksFailMidRun, AtTheirOwnPace) {
  run_whole({}, "2");
  for (const Arguments& how : {Arguments{}, Arguments{"--slow-rank", "0:20x"}}) {
    SCOPED_TRACE(testing::PrintToString(how));
    const Arguments run = arguments_ + how + little_ +
                          Arguments{"--async", "free", "--max-lag", "2", "--rounds", "100000", "--overwrite"};
    expect_end(run_with_bad_disk(1, 1000, run), 1, "Input/output error");
  }
}

// A rank that has failed must not come to the end of the round: the others are in a sum of another size.
TEST_F(RanksFailMidRun, WhileTheyAddUpGradients) {
  const Arguments allreduce = {"--algorithm", "allreduce"};
  run_whole(allreduce, "8");
  const Arguments pieces =
      arguments_ + allreduce + Arguments{"--ram", "256MiB", "--checkpoint-every", "2", "--out", "pieces"};
  ASSERT_EQ(run_program(pieces + Arguments{"--rounds", "4"}, here_.path(), on_ranks(2)).code, 0);
  for (const unsigned rank : {0U, 1U}) {
    // The one model is read when the run goes on, and never again.
    expect_end(run_with_bad_disk(rank, 1, pieces + Arguments{"--rounds", "8", "--resume"}), rank, "Input/output error");
  }
  expect_resumed(pieces + Arguments{"--rounds", "8"});
}

TEST_F(RanksFailMidRun, ByARecordThatWasDamaged) {
  run_whole({}, "8");
  const auto expect_damaged = [&](const fs::path& out, const Arguments& how) {
    SCOPED_TRACE(testing::PrintToString(how));
    const std::uint64_t before = rounds_in(here_.path() / out);
    Program program(arguments_ + little_ + how + Arguments{"--rounds", "1000000", "--out", out}, here_.path(),
                    on_ranks_or_hung(2));
    wait_until(program, [&] { return rounds_in(here_.path() / out) > before + 1; });
    const fs::path slab = here_.path() / out / "store" / "rank-1-of-2" / "public.slab";
    const std::string zeros(fs::file_size(slab), '\0');
    std::fstream(slab, std::ios::in | std::ios::out | std::ios::binary) << zeros;
    expect_end(program.wait(), 1, "is damaged");
  };
  expect_damaged("free", {"--async", "free"});

  const Arguments pieces = arguments_ + little_ + Arguments{"--checkpoint-every", "4", "--out", "pieces"};
  ASSERT_EQ(run_program(pieces + Arguments{"--rounds", "4"}, here_.path(), on_ranks(2)).code, 0);
  fs::copy(here_.path() / "pieces", here_.path() / "copy", fs::copy_options::recursive);
  expect_damaged("pieces", {"--checkpoint-every", "1000000", "--resume"});
  fs::remove_all(here_.path() / "pieces");
  fs::rename(here_.path() / "copy", here_.path() / "pieces");
  expect_resumed(pieces + Arguments{"--rounds", "8"});
}

TEST_F(RanksFailMidRun, ByAFullDiskAndGoOnWhenThereIsSpace) {
  const SmallDisk disk("256m");
  if (disk.error() != 0) GTEST_SKIP() << "NOT TESTED: mounting a tmpfs: " << std::strerror(disk.error());
  run_whole({}, "60");
  fs::create_directories(here_.path() / "disks" / "0");
  fs::create_symlink(disk.path(), here_.path() / "disks" / "1");
  const Arguments pieces = arguments_ + little_ + Arguments{"--rounds", "60",      "--checkpoint-every", "2", "--out",
                                                            "pieces",   "--store", "disks/{rank}/store"};
  Program program(pieces, here_.path(), on_ranks_or_hung(2));
  wait_until(program, [&] { return rounds_in(here_.path() / "pieces") >= 5; });
  disk.fill();
  expect_end(program.wait(), 1, "No space left on device");
  EXPECT_LT(rounds_in(here_.path() / "pieces"), 60U) << "it was over before the disk was full";
  disk.clear();
  expect_resumed(pieces);
}

}  // namespace
}  // namespace shoal
