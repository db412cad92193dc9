// --async free: ranks that do not wait for each other, and the bound on how far apart they may be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/e2e/program.h"

namespace shoal {
namespace {

const Arguments kPlenty = {"--ram", "64MiB", "--rounds", "20"};

class FreeRanks : public testing::Test {
 protected:
  nlohmann::json run(unsigned ranks, const Arguments& how) const {
    return run_to_summary(arguments_ + how, here_.path(), "run", on_ranks(ranks));
  }

  const Arguments arguments_ = {
      "--quiet",   "--model", "quadratic:20000:1:0.1", "--nodes", "24",      "--graph", "random-regular:4",
      "--threads", "1",       "--local-steps",         "4",       "--async", "free",    "--overwrite"};
  TemporaryDirectory here_;
};

TEST_F(FreeRanks, LearnAndSayHowOldTheModelsWereThatTheyRead) {
  for (const unsigned ranks : {2U, 4U}) {
    SCOPED_TRACE(ranks);
    const auto result = run(ranks, kPlenty + Arguments{"--max-lag", "3"});
    ASSERT_TRUE(result.is_object());
    EXPECT_EQ(result["node_steps"], 24 * 20 * 4);
    EXPECT_LE(result["staleness"]["max"], 3);
    EXPECT_LE(result["staleness"]["mean"], result["staleness"]["max"]);
    EXPECT_GT(result["remote"]["bytes"], 0);
    const auto metrics = metrics_of(here_.path() / "run");
    ASSERT_EQ(metrics.size(), 20U);
    EXPECT_EQ(metrics.front()["ranks"], 1);
    EXPECT_EQ(metrics.back()["ranks"], ranks);
    EXPECT_LT(metrics.back()["loss"], 0.9 * metrics.front()["loss"].get<double>());
  }
}

TEST_F(FreeRanks, WithLittleRamReadWhatIsNotListedByRequest) {
  const auto plenty = run(2, kPlenty);
  ASSERT_TRUE(plenty.is_object());
  const std::uint64_t least = plenty["least_ram_bytes"].get<std::uint64_t>() + (64 << 10);
  for (const Arguments& way : {Arguments{}, Arguments{"--neighbour-reads", "one-sided"}}) {
    const auto result = run(2, way + Arguments{"--ram", std::to_string(least), "--rounds", "20", "--max-lag", "2"});
    ASSERT_TRUE(result.is_object());
    EXPECT_GT(result["bytes_read"], 0);
    EXPECT_GT(result["remote"]["requested_bytes"], 0);
    EXPECT_LE(result["staleness"]["max"], 2);
    const auto metrics = metrics_of(here_.path() / "run");
    EXPECT_LT(metrics.back()["loss"], 0.9 * metrics.front()["loss"].get<double>());
  }
}

TEST_F(FreeRanks, RunAheadOfASlowOneAsFarAsTheyMay) {
  const Arguments slow = {"--ram", "64MiB", "--rounds", "10", "--slow-rank", "1:10x"};
  const auto far = run(2, slow + Arguments{"--max-lag", "8"});
  ASSERT_TRUE(far.is_object());
  EXPECT_GT(far["staleness"]["max"], 1);
  EXPECT_LE(far["staleness"]["max"], 8);
  const auto near = run(2, slow + Arguments{"--max-lag", "1"});
  ASSERT_TRUE(near.is_object());
  EXPECT_LE(near["staleness"]["max"], 1);
  // The other takes ten times as long.
  const auto& fast = near["per_rank"][0];
  EXPECT_GT(fast["stall_seconds"]["neighbours"], fast["compute_seconds"]);
}

TEST_F(FreeRanks, WaitForASlowOneOnlyWhereTheyWouldBeTooFarAhead) {
  Arguments arguments = arguments_ + Arguments{"--ram", "64MiB", "--rounds", "6", "--slow-rank", "1:60x"};
  *std::find(arguments.begin(), arguments.end(), "quadratic:20000:1:0.1") = "quadratic:3000:1:0.1";
  const auto run_with = [&](const std::string& lag) {
    return run_to_summary(arguments + Arguments{"--max-lag", lag}, here_.path(), "run", on_ranks(2));
  };
  const auto held_back = [](const nlohmann::json& result, int rank) {
    return result["per_rank"][rank]["remote"]["rounds_held_back"].get<std::uint64_t>();
  };
  const auto far = run_with("6");
  ASSERT_TRUE(far.is_object());
  EXPECT_EQ(held_back(far, 0), 0U);
  EXPECT_EQ(held_back(far, 1), 0U);
  EXPECT_GE(far["staleness"]["max"], 4) << "its last round begins while the other is in its first or second";
  const auto near = run_with("2");
  ASSERT_TRUE(near.is_object());
  EXPECT_GT(held_back(near, 0), 0U);
  EXPECT_EQ(held_back(near, 1), 0U) << "nobody is behind it";
  EXPECT_LE(near["staleness"]["max"], 2);
}

// Where they are at different rounds there is no population to evaluate.
TEST_F(FreeRanks, AreEvaluatedAtTheEnd) {
  write_small_mnist(here_.path() / "mnist", 100, 20);
  const Arguments images = {"--quiet",   "--model", "mlp:784-8-10", "--data",     "mnist:mnist", "--batch", "4",
                            "--threads", "1",       "--nodes",      "12",         "--graph",     "ring",    "--rounds",
                            "4",         "--ram",   "64MiB",        "--overwrite"};
  for (const Arguments& how : {Arguments{"--async", "free"}, Arguments{"--async", "free", "--eval-every", "4"},
                               Arguments{"--config", "run/config.toml"}}) {
    SCOPED_TRACE(testing::PrintToString(how));
    const bool again = how.front() == "--config";
    const auto result =
        run_to_summary((again ? Arguments{"--quiet", "--overwrite"} : images) + how, here_.path(), "run", on_ranks(2));
    ASSERT_TRUE(result.is_object());
    EXPECT_TRUE(result["accuracy_mean"].is_number());
    int evaluations = 0;
    for (const auto& line : metrics_of(here_.path() / "run")) evaluations += line.contains("accuracy") ? 1 : 0;
    EXPECT_EQ(evaluations, 1);
  }
}

TEST_F(FreeRanks, AreRefusedWhereTheyMakeNoSense) {
  const auto expect_refused = [&](const Arguments& how, const std::string& named) {
    SCOPED_TRACE(testing::PrintToString(how));
    const Outcome outcome =
        run_program(arguments_ + kPlenty + how + Arguments{"--out", "never"}, here_.path(), on_ranks(2));
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, testing::HasSubstr(named));
    const auto lines = lines_of(outcome.err);
    EXPECT_EQ(
        std::count_if(lines.begin(), lines.end(), [](const auto& line) { return line.starts_with("shoal-train: "); }),
        1)
        << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(here_.path() / "never"));
  };
  expect_refused({"--algorithm", "gossip"}, "gossip has its own clock");
  expect_refused({"--algorithm", "allreduce"}, "one model for all");
  expect_refused({"--checkpoint-every", "5"}, "no checkpoints");
  expect_refused({"--max-lag", "0"}, "--max-lag");
  expect_refused({"--eval-every", "2"}, "evaluated once");
}

}  // namespace
}  // namespace shoal
