// Ranks on two hosts, started by mpirun.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/e2e/program.h"
#include "tests/e2e/two_hosts.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

class RanksOnTwoHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (!hosts_.there()) {
      GTEST_SKIP() << "NOT TESTED: ranks on two hosts. Network namespaces cannot be made here; run as root, with ip "
                      "(iproute2) installed";
    }
  }

  // Of processes in trace.json: their names, and the rounds they drew.
  static std::map<std::string, int> rounds_drawn(const fs::path& file) {
    std::map<int, std::string> names;
    std::map<int, int> rounds;
    const auto trace = nlohmann::json::parse(read_text(file), nullptr, false);
    EXPECT_TRUE(trace.is_object());
    for (const auto& event : trace.value("traceEvents", nlohmann::json::array())) {
      if (event["name"] == "process_name") names[event["pid"]] = event["args"]["name"];
      if (event["name"] == "round") ++rounds[event["pid"]];
    }
    std::map<std::string, int> drawn;
    for (const auto& [process, name] : names) drawn[name] = rounds[process];
    return drawn;
  }

  // A rank in the first and some in the second, with nothing but TCP between them. mpirun starts those in the second,
  // after `prepare`, by an agent that takes a host and a command.
  Arguments launcher(unsigned in_second = 1, const std::string& prepare = "true") const {
    const fs::path agent = here_.path() / "agent";
    std::ofstream(agent) << "#!/bin/sh\nshift\nexec ip netns exec " << hosts_.second()
                         << " unshare --uts --mount sh -c \"hostname " << hosts_.second() << "; " << prepare
                         << "; $*\"\n";
    fs::permissions(agent, fs::perms::owner_all);
    return Arguments{"ip", "netns", "exec", hosts_.first()} + on_ranks_or_hung(1 + in_second) +
           Arguments{"--host",
                     fmt::format("{}:1,{}:{}", TwoHosts::kFirstAddress, TwoHosts::kSecondAddress, in_second),
                     "--mca",
                     "plm_rsh_agent",
                     agent,
                     "--mca",
                     "oob_tcp_if_include",
                     TwoHosts::kNet,
                     "--mca",
                     "btl_tcp_if_include",
                     TwoHosts::kNet,
                     "--mca",
                     "btl",
                     "tcp,self",
                     "--mca",
                     "pml",
                     "ob1"};
  }

  const Arguments arguments_ = {
      "--quiet", "--model", "quadratic:20000:1:0.1", "--nodes", "40", "--graph", "random-regular:4", "--threads",
      "1",       "--init",  "independent",           "--seed",  "3"};
  const Arguments plenty_ = {"--ram", "64MiB", "--rounds", "4"};
  TwoHosts hosts_;
  TemporaryDirectory here_;
};

TEST_F(RanksOnTwoHosts, GiveTheSameBitsAsOneRank) {
  ASSERT_TRUE(run_to_summary(arguments_ + plenty_, here_.path(), "one").is_object());
  const auto plenty = run_to_summary(arguments_ + plenty_, here_.path(), "plenty", launcher());
  ASSERT_TRUE(plenty.is_object());
  expect_same_results(here_.path() / "plenty", here_.path() / "one");
  EXPECT_EQ(plenty["hosts"], 2);
  EXPECT_EQ(plenty["ranks"], 2);
  EXPECT_NE(plenty["per_rank"][0]["host"], plenty["per_rank"][1]["host"]);
  EXPECT_THAT(plenty["window"]["osc"].get<std::string>(), testing::AnyOf("pt2pt", "rdma"));
  EXPECT_GT(plenty["remote"]["one_sided_bytes"], 0);
  EXPECT_EQ(plenty["remote"]["shared_memory_bytes"], 0);
  EXPECT_EQ(plenty["remote"]["bytes"], plenty["remote"]["lower_bound_bytes"]);

  const std::uint64_t least = plenty["least_ram_bytes"].get<std::uint64_t>() + (64 << 10);
  const auto little = run_to_summary(arguments_ + Arguments{"--ram", std::to_string(least), "--rounds", "4"},
                                     here_.path(), "little", launcher());
  ASSERT_TRUE(little.is_object());
  expect_same_results(here_.path() / "little", here_.path() / "one");
  EXPECT_GT(little["bytes_read"], 0);
  EXPECT_GT(little["remote"]["requested_bytes"], 0);
  EXPECT_EQ(little["remote"]["shared_memory_bytes"], 0);
}

// The second host has a disk for its state, and no results folder nor a way to make one.
TEST_F(RanksOnTwoHosts, LeaveTheirResultsWhereOnlyTheFirstSeesThem) {
  ASSERT_TRUE(run_to_summary(arguments_ + plenty_, here_.path(), "one").is_object());
  fs::create_directory(here_.path() / "results");
  const std::string hide = fmt::format("mount -t tmpfs -o ro,size=1m shoal-test {}/results", here_.path().string());
  const auto summary = run_to_summary(arguments_ + plenty_ + Arguments{"--trace", "--store", "state"}, here_.path(),
                                      "results/run", launcher(1, hide));
  ASSERT_TRUE(summary.is_object());
  const fs::path out = here_.path() / "results" / "run";
  expect_same_results(out, here_.path() / "one");
  EXPECT_THAT(read_text(out / "report.html"), testing::HasSubstr("</html>"));
  EXPECT_EQ(summary["hosts"], 2);
  EXPECT_EQ(summary["trace"]["rounds_with_nodes"], 4);
  EXPECT_THAT(rounds_drawn(out / "trace.json"),
              testing::ElementsAre(testing::Pair(testing::StartsWith("rank 0 on "), 4),
                                   testing::Pair("rank 1 on " + hosts_.second(), 4)));
}

// Rank 0 has what it needs, and would wait for the others where it hears nothing.
TEST_F(RanksOnTwoHosts, EndWithOneMessageWhenOneOfThemHasNoSharedMemory) {
  const Outcome outcome =
      run_program(arguments_ + plenty_, here_.path(), launcher(2, "mount -t tmpfs -o size=1m shoal-test /dev/shm"));
  EXPECT_EQ(outcome.code, 1);
  const auto lines = own_lines(outcome.err);
  ASSERT_EQ(lines.size(), 1U) << outcome.err;
  EXPECT_THAT(lines[0], testing::ContainsRegex("rank [12] on .*/dev/shm has 1.00 MiB free; make it larger"));
}

TEST_F(RanksOnTwoHosts, EndWithOneMessageWhenTheyCannotHaveAWindow) {
  const Outcome outcome = run_program(arguments_ + plenty_, here_.path(), launcher() + Arguments{"--mca", "osc", "sm"});
  EXPECT_EQ(outcome.code, 1);
  const auto lines = own_lines(outcome.err);
  ASSERT_EQ(lines.size(), 1U) << outcome.err;
  EXPECT_THAT(lines[0], testing::ContainsRegex("rank [01] on .*no window of .* over all ranks .*osc.*MPI_ERR_WIN"));
  EXPECT_THAT(outcome.err, testing::Not(testing::HasSubstr("MPI_ERRORS_ARE_FATAL")));
}

TEST_F(RanksOnTwoHosts, TrainAtTheirOwnPace) {
  const auto result =
      run_to_summary(arguments_ + Arguments{"--ram", "64MiB", "--rounds", "20", "--async", "free", "--max-lag", "2"},
                     here_.path(), "free", launcher());
  ASSERT_TRUE(result.is_object());
  EXPECT_LE(result["staleness"]["max"], 2);
  EXPECT_GT(result["remote"]["one_sided_bytes"], 0);
  const auto metrics = metrics_of(here_.path() / "free");
  EXPECT_LT(metrics.back()["loss"], metrics.front()["loss"]);
}

}  // namespace
}  // namespace shoal
