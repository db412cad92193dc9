// How ranks are started, what they print, and where each has its files.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "tests/e2e/program.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

class RanksLaunch : public testing::Test {
 protected:
  Outcome run(const Arguments& arguments, const Arguments& launcher) const {
    return run_program(small_ + arguments, here_.path(), launcher);
  }

  const Arguments small_ = {"--model",   "quadratic:2000:1:0.1",
                            "--nodes",   "24",
                            "--graph",   "random-regular:4",
                            "--threads", "1",
                            "--ram",     "64MiB",
                            "--rounds",  "3"};
  TemporaryDirectory here_;
};

TEST_F(RanksLaunch, QuietSaysNothingButTheSummary) {
  const Outcome outcome = run({"--quiet"}, on_ranks(3));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "") << "neither Shoal nor Open MPI has anything to say";
  const auto summary = summary_of(here_.path() / "shoal-run");
  EXPECT_THAT(outcome.out, testing::HasSubstr("state_hash " + summary["state_hash"].get<std::string>()));
  EXPECT_EQ(outcome.out.find("state_hash"), outcome.out.rfind("state_hash")) << outcome.out;
}

TEST_F(RanksLaunch, OnlyTheFirstPrintsAndEachHasALog) {
  const Outcome outcome = run({"--json", "--log-dir", "logs"}, on_ranks(3));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out), summary_of(here_.path() / "shoal-run"));
  int windows = 0;
  for (const std::string& line : lines_of(outcome.err)) {
    EXPECT_THAT(line, testing::Not(testing::AnyOf(testing::HasSubstr("mpirun"), testing::HasSubstr("MPI_"),
                                                  testing::StartsWith("["), testing::StartsWith("----"))));
    if (line.starts_with("  window ")) {
      ++windows;
      EXPECT_THAT(line, testing::AllOf(testing::HasSubstr("osc/"), testing::HasSubstr("progress")));
    }
  }
  EXPECT_EQ(windows, 1) << outcome.err;
  EXPECT_THAT(outcome.err, testing::HasSubstr("  partition  8 to 8 nodes a rank"));
  for (const int rank : {0, 1, 2}) {
    EXPECT_THAT(read_text(here_.path() / "logs" / fmt::format("rank-{}.log", rank)), testing::HasSubstr("osc/"));
  }
}

TEST_F(RanksLaunch, OneRankNeedsNoLauncherAndBearsOne) {
  const Outcome alone = run({"--quiet", "--out", "alone"}, {});
  Arguments launcher = on_ranks(2);
  *std::find(launcher.begin(), launcher.end(), "2") = "1";
  const Outcome launched = run({"--quiet", "--out", "launched"}, launcher);
  for (const Outcome& outcome : {alone, launched}) {
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, "");
  }
  EXPECT_EQ(summary_of(here_.path() / "launched")["ranks"], 1);
  expect_same_results(here_.path() / "launched", here_.path() / "alone");
}

TEST_F(RanksLaunch, EachHasItsStoreWhereTheBracesSay) {
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  const Arguments arguments = {"--quiet", "--checkpoint-every", "2", "--store", "disk-{local_rank}/{host}/run-{rank}",
                               "--cold",  "cold-{rank}-{rank}"};
  const Outcome outcome = run(arguments, on_ranks(2));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  nlohmann::json expected = nlohmann::json::array();
  for (const int rank : {0, 1}) {
    const fs::path store = here_.path() / fmt::format("disk-{0}/{1}/run-{0}/rank-{0}-of-2", rank, host.data());
    const fs::path cold = here_.path() / fmt::format("cold-{0}-{0}/rank-{0}-of-2", rank);
    EXPECT_TRUE(fs::exists(store / "public.slab")) << store;
    EXPECT_TRUE(fs::is_directory(cold)) << cold;
    expected.push_back({{"store", store.string()}, {"cold", cold.string()}});
  }
  EXPECT_EQ(nlohmann::json::parse(read_text(here_.path() / "shoal-run" / "stores.json")), expected);
}

}  // namespace
}  // namespace shoal
