// How ranks are started, what they print, and where each has its files.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <regex>
#include <set>

#include "tests/e2e/program.h"
#include "tests/store/refusing_kernel.h"

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

TEST_F(RanksLaunch, UsesAllCoresUnlessABindingWasAskedFor) {
  const auto threads = [&](const Arguments& launcher) {
    SCOPED_TRACE(testing::PrintToString(launcher));
    const Outcome outcome = run_program({"--print-config"}, here_.path(), launcher);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::smatch match;
    EXPECT_TRUE(std::regex_search(outcome.out, match, std::regex("\nthreads = (\\d+)"))) << outcome.out;
    return match.empty() ? 0 : std::stoi(match[1]);
  };
  const int cores = threads({});
  if (cores < 2) GTEST_SKIP() << "NOT TESTED: this machine has one core";
  on_ranks(2);
  const Arguments one = {"mpirun", "-np", "1"};
  EXPECT_EQ(threads(one), cores);
  EXPECT_EQ(threads(one + Arguments{"sh", "-c", R"("$0" "$@"; exit $?)"}), cores);
  EXPECT_EQ(threads({"mpirun", "-np", "2"}), cores / 2);
  EXPECT_EQ(threads(one + Arguments{"--bind-to", "core"}), 1);
  EXPECT_EQ(threads(one + Arguments{"--map-by", "slot:PE=2", "--bind-to", "core:overload-allowed"}), 2);
  EXPECT_EQ(threads(Arguments{"taskset", "--cpu-list", std::to_string(::sched_getcpu())} + one), 1);
}

TEST_F(RanksLaunch, SaysNothingWhereRanksMayNotReadEachOthersMemory) {
  Outcome outcome;
  with_refusing_kernel(Refused::kReadingOthers, [&] { outcome = run({"--quiet"}, on_ranks(3)); });
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
}

TEST_F(RanksLaunch, TheFirstSaysWhatAnotherHasToDoWithout) {
  const Outcome outcome = run({"--log-dir", "logs"}, on_ranks(3) + Arguments{FAULTY_RANK, "1", "no-io-uring"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::vector<std::string> said = lines_of(outcome.err);
  std::erase_if(said, [](const std::string& line) { return line.find("posix instead of io_uring") == line.npos; });
  ASSERT_EQ(said.size(), 1U) << outcome.err;
  EXPECT_THAT(said[0], testing::EndsWith("on rank 1"));
  EXPECT_THAT(read_text(here_.path() / "logs" / "rank-1.log"), testing::HasSubstr("posix instead of io_uring"));
  EXPECT_THAT(read_text(here_.path() / "logs" / "rank-2.log"), testing::Not(testing::HasSubstr("instead of")));
  const auto summary = summary_of(here_.path() / "shoal-run");
  for (const auto& rank : summary["per_rank"]) {
    EXPECT_EQ(rank["modes"] == summary["modes"], rank["rank"] != 1) << rank["modes"];
  }
}

TEST_F(RanksLaunch, DrawOnePictureOfWhatEachDid) {
  const Outcome outcome = run({"--quiet", "--trace"}, on_ranks(3));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const fs::path folder = here_.path() / "shoal-run";
  std::map<int, std::set<int>> rounds;
  std::map<int, std::set<int>> nodes;
  std::uint64_t events = 0;
  const auto trace = nlohmann::json::parse(read_text(folder / "trace.json"));
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    ++events;
    if (event.at("name") == "round") rounds[event.at("pid")].insert(event.at("args").at("round").get<int>());
    if (event.at("name") == "compute") nodes[event.at("pid")].insert(event.at("args").at("node").get<int>());
  }
  EXPECT_THAT(rounds, testing::ElementsAre(testing::Pair(1, testing::ElementsAre(0, 1, 2)),
                                           testing::Pair(2, testing::ElementsAre(0, 1, 2)),
                                           testing::Pair(3, testing::ElementsAre(0, 1, 2))));
  for (const int rank : {1, 2, 3}) EXPECT_EQ(nodes[rank].size(), 8U) << "its share";
  const auto summary = summary_of(folder)["trace"];
  EXPECT_EQ(summary["events"], events);
  EXPECT_EQ(summary["left_out"], 0);
  EXPECT_EQ(summary["rounds_with_nodes"], 3);
}

TEST_F(RanksLaunch, EachHasItsStoreWhereTheBracesSay) {
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  const Arguments arguments = {"--quiet", "--checkpoint-every", "2", "--store", "disk-{local_rank}/{host}/run-{rank}",
                               "--cold",  "cold-{rank}-{rank}"};
  const Outcome outcome = run(arguments, on_ranks(2));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto listed = nlohmann::json::parse(read_text(here_.path() / "shoal-run" / "stores.json"))["stores"];
  ASSERT_EQ(listed.size(), 2U);
  for (const unsigned rank : {0U, 1U}) {
    const fs::path store = here_.path() / fmt::format("disk-{0}/{1}/run-{0}/rank-{0}-of-2", rank, host.data());
    const fs::path cold = here_.path() / fmt::format("cold-{0}-{0}/rank-{0}-of-2", rank);
    EXPECT_TRUE(fs::exists(store / "public.slab")) << store;
    EXPECT_TRUE(fs::is_directory(cold)) << cold;
    EXPECT_EQ(listed[rank]["store"], store.string());
    EXPECT_EQ(listed[rank]["cold"], cold.string());
  }
}

}  // namespace
}  // namespace shoal
