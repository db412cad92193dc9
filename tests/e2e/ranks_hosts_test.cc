// Ranks on two hosts that share no memory: two network namespaces of this machine, joined by a virtual cable.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/e2e/program.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

// The cable's ends are made in the namespaces, so its addresses are nobody else's.
class TwoNamespaces {
 public:
  TwoNamespaces()
      : first_(fmt::format("shoal-test-{}-a", ::getpid())), second_(fmt::format("shoal-test-{}-b", ::getpid())) {
    there_ = ip("netns add {}", first_) && ip("netns add {}", second_) &&
             ip("link add cable netns {} type veth peer name cable netns {}", first_, second_) &&
             ip("-n {} address add 10.77.213.1/24 dev cable", first_) &&
             ip("-n {} address add 10.77.213.2/24 dev cable", second_);
    for (const std::string& name : {first_, second_}) {
      there_ = there_ && ip("-n {} link set cable up", name) && ip("-n {} link set lo up", name);
    }
  }
  ~TwoNamespaces() {
    for (const std::string& name : {first_, second_}) ip("netns delete {}", name);
  }
  TwoNamespaces(const TwoNamespaces&) = delete;
  TwoNamespaces& operator=(const TwoNamespaces&) = delete;

  bool there() const { return there_; }

  // A rank in the first and some in the second, with nothing but TCP between them. `agent` is written: it starts
  // commands on the second host, after `there`.
  Arguments launcher(const fs::path& agent, unsigned in_second = 1, const std::string& there = "true") const {
    const Arguments launched = on_ranks_or_hung(1 + in_second);
    std::ofstream(agent) << "#!/bin/sh\nshift\nexec ip netns exec " << second_
                         << " unshare --uts --mount sh -c \"hostname " << second_ << "; " << there << "; $*\"\n";
    fs::permissions(agent, fs::perms::owner_all);
    const std::string net = "10.77.213.0/24";
    return Arguments{"ip", "netns", "exec", first_} + launched +
           Arguments{"--host",
                     fmt::format("10.77.213.1:1,10.77.213.2:{}", in_second),
                     "--mca",
                     "plm_rsh_agent",
                     agent,
                     "--mca",
                     "oob_tcp_if_include",
                     net,
                     "--mca",
                     "btl_tcp_if_include",
                     net,
                     "--mca",
                     "btl",
                     "tcp,self",
                     "--mca",
                     "pml",
                     "ob1"};
  }

 private:
  template <typename... Names>
  static bool ip(fmt::format_string<const Names&...> words, const Names&... names) {
    return std::system(fmt::format("ip {} 2>/dev/null", fmt::format(words, names...)).c_str()) == 0;
  }

  const std::string first_;
  const std::string second_;
  bool there_ = false;
};

class TwoHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (!namespaces_.there()) {
      GTEST_SKIP() << "NOT TESTED: ranks on two hosts. Network namespaces cannot be made here; run as root, with ip "
                      "(iproute2) installed";
    }
    launcher_ = namespaces_.launcher(here_.path() / "agent");
  }

  const Arguments arguments_ = {
      "--quiet", "--model", "quadratic:20000:1:0.1", "--nodes", "40", "--graph", "random-regular:4", "--threads",
      "1",       "--init",  "independent",           "--seed",  "3"};
  const Arguments plenty_ = {"--ram", "64MiB", "--rounds", "4"};
  TwoNamespaces namespaces_;
  TemporaryDirectory here_;
  Arguments launcher_;
};

TEST_F(TwoHosts, GiveTheSameBitsAsOneRank) {
  ASSERT_TRUE(run_to_summary(arguments_ + plenty_, here_.path(), "one").is_object());
  const auto plenty = run_to_summary(arguments_ + plenty_, here_.path(), "plenty", launcher_);
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
                                     here_.path(), "little", launcher_);
  ASSERT_TRUE(little.is_object());
  expect_same_results(here_.path() / "little", here_.path() / "one");
  EXPECT_GT(little["bytes_read"], 0);
  EXPECT_GT(little["remote"]["requested_bytes"], 0);
  EXPECT_EQ(little["remote"]["shared_memory_bytes"], 0);
}

// Rank 0 has what it needs, and would wait for the others where it hears nothing.
TEST_F(TwoHosts, EndWithOneMessageWhenOneOfThemHasNoSharedMemory) {
  const Outcome outcome =
      run_program(arguments_ + plenty_, here_.path(),
                  namespaces_.launcher(here_.path() / "agent", 2, "mount -t tmpfs -o size=1m shoal-test /dev/shm"));
  EXPECT_EQ(outcome.code, 1);
  const auto lines = own_lines(outcome.err);
  ASSERT_EQ(lines.size(), 1U) << outcome.err;
  EXPECT_THAT(lines[0], testing::ContainsRegex("rank [12] on .*/dev/shm has 1.00 MiB free; make it larger"));
}

TEST_F(TwoHosts, EndWithOneMessageWhenTheyCannotHaveAWindow) {
  const Outcome outcome = run_program(arguments_ + plenty_, here_.path(), launcher_ + Arguments{"--mca", "osc", "sm"});
  EXPECT_EQ(outcome.code, 1);
  const auto lines = own_lines(outcome.err);
  ASSERT_EQ(lines.size(), 1U) << outcome.err;
  EXPECT_THAT(lines[0], testing::ContainsRegex("rank [01] on .*no window of .* over all ranks .*osc.*MPI_ERR_WIN"));
  EXPECT_THAT(outcome.err, testing::Not(testing::HasSubstr("MPI_ERRORS_ARE_FATAL")));
}

TEST_F(TwoHosts, TrainAtTheirOwnPace) {
  const auto result =
      run_to_summary(arguments_ + Arguments{"--ram", "64MiB", "--rounds", "20", "--async", "free", "--max-lag", "2"},
                     here_.path(), "free", launcher_);
  ASSERT_TRUE(result.is_object());
  EXPECT_LE(result["staleness"]["max"], 2);
  EXPECT_GT(result["remote"]["one_sided_bytes"], 0);
  const auto metrics = metrics_of(here_.path() / "free");
  EXPECT_LT(metrics.back()["loss"], metrics.front()["loss"]);
}

}  // namespace
}  // namespace shoal
