// What goes wrong on one rank ends all of them, once and clearly; and what was saved is there.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <thread>

#include "tests/e2e/program.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

class RanksTest : public testing::Test {
 protected:
  // Exactly one line of Shoal's own, and no run left behind.
  void expect_one_message(unsigned ranks, const Arguments& arguments, int code, const std::string& named) const {
    SCOPED_TRACE(testing::PrintToString(arguments));
    const Outcome outcome = run_program(arguments, here_.path(), on_ranks(ranks));
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    const auto lines = own_lines(outcome.err);
    ASSERT_EQ(lines.size(), 1U) << outcome.err;
    EXPECT_THAT(lines[0], testing::HasSubstr(named));
    EXPECT_FALSE(fs::exists(here_.path() / "shoal-run" / "config.toml"));
  }

  void kill_one_of(Program& program) {
    const std::vector<pid_t> ranks = program.children();
    if (!ranks.empty()) ::kill(ranks[random_() % ranks.size()], SIGKILL);
  }

  const Arguments small_ = {"--quiet",
                            "--model",
                            "quadratic:2000:1:0.1",
                            "--nodes",
                            "24",
                            "--graph",
                            "random-regular:4",
                            "--threads",
                            "1",
                            "--ram",
                            "64MiB",
                            "--init",
                            "independent"};
  std::mt19937 random_{7};
  TemporaryDirectory here_;
};

using RanksFail = RanksTest;

TEST_F(RanksFail, WithTheMessageOfTheOneThatCannotWrite) {
  for (const int rank : {0, 2}) {
    const std::string disks = fmt::format("disks-{}", rank);
    const fs::path place = here_.path() / disks / fmt::format("place-{}", rank);
    fs::create_directory(here_.path() / disks);
    std::ofstream(place) << "a file";
    const Arguments arguments = small_ + Arguments{"--rounds", "2", "--store", disks + "/place-{rank}"};
    const std::string message = fmt::format("shoal-train: rank {} on", rank);
    const std::string logs = fmt::format("logs-{}", rank);
    expect_one_message(3, arguments + Arguments{"--log-dir", logs}, 1, message);
    for (const int each : {0, 1, 2}) {
      const std::string log = read_text(here_.path() / logs / fmt::format("rank-{}.log", each));
      EXPECT_THAT(log, testing::HasSubstr(message)) << "rank " << each;
      EXPECT_EQ(log.find(message), log.rfind(message)) << log;
    }
    // And nothing of the others stands in the way of the next attempt.
    fs::remove(place);
    const fs::path out = fmt::format("run-{}", rank);
    const auto next = run_to_summary(arguments, here_.path(), out, on_ranks(3));
    EXPECT_TRUE(next.is_object());
  }
}

TEST_F(RanksFail, OnceForWhatTheyDoNotUnderstand) {
  expect_one_message(3, small_ + Arguments{"--nodse", "9"}, 2, "--nodse");
  expect_one_message(3, small_ + Arguments{"--store", "place-{node}"}, 2, "only {rank}, {local_rank} and {host}");
  expect_one_message(3, small_ + Arguments{"--resume"}, 2, "no run");
  expect_one_message(3, {"--quiet", "--model", "quadratic:8", "--nodes", "2", "--graph", "complete"}, 2,
                     "3 ranks for 2 nodes");
  expect_one_message(3, {"--quiet", "--model", "quadratic:8", "--nodes", "8", "--graph", "ring", "--ram", "1MiB"}, 2,
                     "at least");
  for (const unsigned ranks : {1U, 3U}) {
    expect_one_message(ranks, small_ + Arguments{"--slow-rank", "3:10x"}, 2, "--slow-rank 3: there is no such rank");
  }
  EXPECT_TRUE(fs::is_empty(here_.path()));
}

TEST_F(RanksFail, WhereAnotherRunUsesOneOfTheStores) {
  const Arguments arguments = small_ + Arguments{"--rounds", "1000000", "--checkpoint-every", "1000000"};
  Program first(arguments + Arguments{"--out", "first", "--store", "stores"}, here_.path(), on_ranks(2));
  wait_until(first, [&] { return rounds_in(here_.path() / "first") > 1; });
  expect_one_message(2, arguments + Arguments{"--store", "stores"}, 1, "already");
  expect_one_message(2, arguments + Arguments{"--store", "stores", "--overwrite"}, 1, "in use");
  EXPECT_TRUE(first.running());
  const std::uint64_t before = rounds_in(here_.path() / "first");
  wait_until(first, [&] { return rounds_in(here_.path() / "first") > before; });
  EXPECT_TRUE(first.running());
}

class RanksInterrupted : public RanksTest {
 protected:
  // Three of them; up to four times, and at least once, one is killed, and the run goes on from its last checkpoint.
  // The results in "pieces" are those in "whole".
  void run_with_kills(const Arguments& arguments) {
    const fs::path pieces = here_.path() / "pieces";
    int kills = 0;
    Arguments how;
    for (bool done = false; !done;) {
      ASSERT_LT(kills, 20);
      Program program(arguments + Arguments{"--checkpoint-every", "1", "--out", "pieces"} + how, here_.path(),
                      on_ranks(3));
      if (kills == 0) {
        // While they start, make windows, create nodes.
        wait_until(program, [&] { return !program.children().empty(); });
        std::this_thread::sleep_for(std::chrono::milliseconds(300 + random_() % 900));
      } else if (kills < 4) {
        const std::uint64_t target = rounds_in(pieces) + 1 + random_() % 5;
        wait_until(program, [&] { return rounds_in(pieces) >= target; });
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % 20'000));
      }
      if (kills < 4) kill_one_of(program);
      const Outcome outcome = program.wait();
      if (outcome.code == 0 && kills == 0) {
        how = {"--overwrite"};  // they were quicker
      } else if (outcome.code == 0) {
        done = true;
      } else if (outcome.err.find("--resume: ") != std::string::npos) {
        EXPECT_THAT(outcome.err, testing::AnyOf(testing::HasSubstr("there is no run in"),
                                                testing::HasSubstr("before its first checkpoint")));
        how = {"--overwrite"};
      } else {
        ASSERT_LT(kills, 4) << outcome.err;
        EXPECT_EQ(outcome.out, "");
        ++kills;
        how = {"--resume"};
      }
    }
    expect_same_results(pieces, here_.path() / "whole");
  }
};

TEST_F(RanksInterrupted, ByAKillOfOneTheyEndAsInOneGo) {
  const Arguments arguments = small_ + Arguments{"--rounds", "40"};
  ASSERT_TRUE(run_to_summary(arguments, here_.path(), "whole").is_object());
  run_with_kills(arguments);
}

TEST_F(RanksInterrupted, ByAKillOfOneTheyEndAsInOneGoOutOfCore) {
  const Arguments arguments = {
      "--quiet", "--model", "quadratic:2000:1:0.1", "--nodes",  "240", "--graph", "random-regular:4", "--threads",
      "1",       "--init",  "independent",          "--rounds", "40"};
  const auto whole = run_to_summary(arguments + Arguments{"--ram", "64MiB"}, here_.path(), "whole", on_ranks(3));
  ASSERT_TRUE(whole.is_object());
  const std::uint64_t least = whole["least_ram_bytes"].get<std::uint64_t>() + (64 << 10);
  run_with_kills(arguments + Arguments{"--ram", std::to_string(least)});
  EXPECT_GT(summary_of(here_.path() / "pieces")["bytes_read"], 0) << "it was meant to be too little RAM";
}

TEST_F(RanksInterrupted, ByATerminationOfTheLauncherTheySaveTheirWork) {
  const Arguments arguments = small_ + Arguments{"--rounds", "3000", "--checkpoint-every", "100000"};
  ASSERT_TRUE(run_to_summary(arguments, here_.path(), "whole").is_object());
  const fs::path pieces = here_.path() / "pieces";
  {
    Program program(arguments + Arguments{"--out", "pieces"}, here_.path(), on_ranks(2));
    wait_until(program, [&] { return rounds_in(pieces) > 2; });
    program.send(SIGTERM);
    const Outcome stopped = program.wait();
    EXPECT_EQ(stopped.out, "");
    EXPECT_FALSE(fs::exists(pieces / "summary.json")) << "it was meant to be stopped before its end";
  }
  const auto resumed = run_to_summary(arguments + Arguments{"--resume"}, here_.path(), "pieces", on_ranks(2));
  ASSERT_TRUE(resumed.is_object());
  EXPECT_GT(resumed["resumed_at_round"], 2);
  expect_same_results(pieces, here_.path() / "whole");
}

struct MoveCase {
  const char* name;
  Arguments arguments;
};
const std::vector<MoveCase> kMoves = {
    {"Cta", {}},
    {"Gossip", {"--algorithm", "gossip", "--gossip-every", "2-4"}},
    {"Allreduce", {"--algorithm", "allreduce"}},
};

class RanksMove : public RanksTest, public testing::WithParamInterface<std::size_t> {
 protected:
  Arguments arguments(const std::string& rounds) const {
    return small_ + kMoves[GetParam()].arguments + Arguments{"--rounds", rounds, "--checkpoint-every", "2"};
  }

  // Folders of ranks, and "itself" when one rank has its store right there.
  std::vector<std::string> stores() const {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(here_.path() / "pieces" / "store")) {
      const std::string name = entry.path().filename();
      if (name.starts_with("rank-")) names.push_back(name);
      if (name == "public.slab") names.emplace_back("itself");
    }
    std::sort(names.begin(), names.end());
    return names;
  }
};

TEST_P(RanksMove, FromTwoToThreeToOneToTwo) {
  const bool shared = kMoves[GetParam()].name == std::string("Allreduce");
  ASSERT_TRUE(run_to_summary(arguments("8"), here_.path(), "whole").is_object());
  ASSERT_TRUE(run_to_summary(arguments("2"), here_.path(), "pieces", on_ranks(2)).is_object());
  using testing::ElementsAre;
  EXPECT_THAT(stores(), ElementsAre("rank-0-of-2", "rank-1-of-2"));
  ASSERT_TRUE(run_to_summary(arguments("4") + Arguments{"--resume"}, here_.path(), "pieces", on_ranks(3)).is_object());
  EXPECT_THAT(stores(), ElementsAre("rank-0-of-3", "rank-1-of-3", "rank-2-of-3"));
  ASSERT_TRUE(run_to_summary(arguments("6") + Arguments{"--resume"}, here_.path(), "pieces", on_ranks(1)).is_object());
  EXPECT_THAT(stores(), ElementsAre("itself"));
  const auto last = run_to_summary(arguments("8") + Arguments{"--resume"}, here_.path(), "pieces", on_ranks(2));
  ASSERT_TRUE(last.is_object());
  EXPECT_THAT(stores(), ElementsAre("rank-0-of-2", "rank-1-of-2"));
  EXPECT_EQ(last["resumed_at_round"], 6);
  expect_same_results(here_.path() / "pieces", here_.path() / "whole");
  if (!shared) {
    EXPECT_GT(last["remote"]["bytes"], 0);
  }
}

TEST_P(RanksMove, NotWhenAStoreIsMissingAndSayWhich) {
  ASSERT_TRUE(run_to_summary(arguments("4"), here_.path(), "whole").is_object());
  ASSERT_TRUE(run_to_summary(arguments("2"), here_.path(), "pieces", on_ranks(2)).is_object());
  const fs::path store = here_.path() / "pieces" / "store" / "rank-1-of-2";
  fs::rename(store, here_.path() / "elsewhere");
  const Outcome refused =
      run_program(arguments("4") + Arguments{"--resume", "--out", "pieces"}, here_.path(), on_ranks(3));
  EXPECT_EQ(refused.code, 1);
  ASSERT_EQ(own_lines(refused.err).size(), 1U) << refused.err;
  EXPECT_THAT(refused.err, testing::HasSubstr(store.string()));
  fs::rename(here_.path() / "elsewhere", store);
  ASSERT_TRUE(run_to_summary(arguments("4") + Arguments{"--resume"}, here_.path(), "pieces", on_ranks(3)).is_object());
  expect_same_results(here_.path() / "pieces", here_.path() / "whole");
}

TEST_P(RanksMove, AgainWhenTheyWereKilledOnTheWay) {
  ASSERT_TRUE(run_to_summary(arguments("4"), here_.path(), "whole").is_object());
  ASSERT_TRUE(run_to_summary(arguments("2"), here_.path(), "pieces", on_ranks(2)).is_object());
  const Arguments resume = arguments("4") + Arguments{"--resume", "--out", "pieces"};
  for (int kill = 0; kill < 3; ++kill) {
    Program program(resume, here_.path(), on_ranks(3));
    wait_until(program, [&] { return fs::exists(here_.path() / "pieces" / "store" / "rank-2-of-3"); });
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 60'000));
    kill_one_of(program);
    if (program.wait().code == 0) break;
  }
  ASSERT_TRUE(run_to_summary(arguments("4") + Arguments{"--resume"}, here_.path(), "pieces", on_ranks(3)).is_object());
  expect_same_results(here_.path() / "pieces", here_.path() / "whole");
}

INSTANTIATE_TEST_SUITE_P(All, RanksMove, testing::Range<std::size_t>(0, kMoves.size()),
                         [](const auto& test) { return kMoves[test.param].name; });

}  // namespace
}  // namespace shoal
