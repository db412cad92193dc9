// A run that is asked to end early says so at once, saves what it has done, and goes on from there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/e2e/program.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kAnswer = "ends first; then a checkpoint is made";

class Signals : public testing::Test {
 protected:
  // Rounds that take longer than the 1 s which mpirun gives its ranks after SIGTERM.
  static constexpr double kRoundSeconds = 3;

  Signals() {
    whole_ = run_to_summary(small_ + Arguments{"--rounds", "3"}, here_.path(), "whole");
    // The quickest one: what slowed the others down need not come again.
    double compute = kRoundSeconds;
    for (const auto& line : metrics_of(here_.path() / "whole")) {
      compute = std::min(compute, line["compute_seconds"].get<double>());
    }
    slow_ = {"--slow-rank", "0:" + std::to_string(kRoundSeconds / compute) + "x"};
  }

  std::size_t rounds() const { return metrics_of(here_.path() / "run").size(); }

  template <typename Condition>
  static void wait_until(Program& program, Condition condition) {
    while (program.running() && !condition()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  int checkpoints_in_trace() const {
    const auto trace = nlohmann::json::parse(read_text(here_.path() / "run" / "trace.json"));
    int count = 0;
    for (const auto& event : trace.at("traceEvents")) count += event.value("name", "") == "checkpoint" ? 1 : 0;
    return count;
  }

  void expect_it_goes_on_from(std::uint64_t round, unsigned ranks, const Arguments& how = {}) const {
    const Arguments resume = {"--rounds", "3", "--checkpoint-every", "1000", "--resume"};
    const auto resumed = run_to_summary(small_ + resume + how, here_.path(), "run", on_ranks(ranks));
    ASSERT_TRUE(resumed.is_object());
    EXPECT_EQ(resumed["resumed_at_round"], round);
    expect_same_results(here_.path() / "run", here_.path() / "whole");
  }

  const Arguments small_ = {"--quiet", "--model", "quadratic:2000:1:0.1", "--nodes",   "24", "--graph", "ring", "--ram",
                            "64MiB",   "--init",  "independent",          "--threads", "1"};
  const Arguments run_ = {"--rounds", "3", "--checkpoint-every", "1000", "--out", "run", "--trace"};
  Arguments slow_;
  nlohmann::json whole_;
  TemporaryDirectory here_;
};

class EachSignal : public Signals, public testing::WithParamInterface<int> {};

TEST_P(EachSignal, IsAnsweredAtOnceAndTheRoundIsSaved) {
  Program program(small_ + run_ + slow_, here_.path());
  wait_until(program, [&] { return rounds() == 1; });
  program.send(GetParam());
  wait_until(program, [&] { return !program.said().empty(); });
  EXPECT_THAT(program.said(), HasSubstr(kAnswer));
  EXPECT_EQ(rounds(), 1U) << "it was to be said before the round ends";
  const Outcome stopped = program.wait();
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_EQ(stopped.out, "");
  ASSERT_EQ(lines_of(stopped.err).size(), 2U) << stopped.err;
  EXPECT_THAT(lines_of(stopped.err)[1],
              HasSubstr("stopped after 2 of 3 rounds; the checkpoint is in " + (here_.path() / "run/store").string()));
  EXPECT_EQ(checkpoints_in_trace(), 1);
  expect_it_goes_on_from(2, 1);
}

INSTANTIATE_TEST_SUITE_P(All, EachSignal, testing::Values(SIGTERM, SIGINT, SIGUSR1), [](const auto& test) {
  return test.param == SIGTERM ? "Term" : test.param == SIGINT ? "Int" : "Usr1";
});

TEST_F(Signals, TheSecondEndsItNowAndLeavesTheLastCheckpoint) {
  Program program(small_ + slow_ + Arguments{"--rounds", "3", "--checkpoint-every", "1", "--out", "run"}, here_.path());
  wait_until(program, [&] { return rounds() == 1; });
  // The checkpoint of the first round is made when the second begins; a while later it is in the middle of it.
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  program.send(SIGTERM);
  wait_until(program, [&] { return !program.said().empty(); });
  program.send(SIGINT);
  const Outcome ended = program.wait();
  EXPECT_EQ(ended.signal, SIGINT);
  EXPECT_EQ(rounds(), 1U);
  expect_it_goes_on_from(1, 1);
}

TEST_F(Signals, ASecondRequestThatIsNoTerminationIsJustARequest) {
  Program program(small_ + run_ + slow_, here_.path());
  wait_until(program, [&] { return rounds() == 1; });
  for (const int signal : {SIGUSR1, SIGUSR1, SIGTERM, SIGUSR1}) {
    program.send(signal);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const Outcome stopped = program.wait();
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_EQ(lines_of(stopped.err).size(), 2U) << stopped.err;
  expect_it_goes_on_from(2, 1);
}

// It has nobody to be ahead of.
TEST_F(Signals, OfARankAloneSaveTheRoundThoughItMayRunFree) {
  const Arguments free = {"--async", "free"};
  Program program(small_ + run_ + slow_ + free, here_.path());
  wait_until(program, [&] { return rounds() == 1; });
  program.send(SIGTERM);
  const Outcome stopped = program.wait();
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr(kAnswer));
  EXPECT_THAT(stopped.err, HasSubstr("stopped after 2 of 3 rounds"));
  expect_it_goes_on_from(2, 1, free);
}

TEST_F(Signals, WhileNodesAreCreatedTheyAreSavedToo) {
  const Arguments many = {
      "--quiet", "--model", "quadratic:2000:1:0.1", "--nodes",   "4000", "--graph",  "ring", "--ram",
      "96MiB",   "--init",  "independent",          "--threads", "1",    "--rounds", "2",    "--checkpoint-every",
      "1000"};
  const auto whole = run_to_summary(many, here_.path(), "many");
  Program program(many + Arguments{"--out", "run"}, here_.path());
  wait_until(program, [&] { return fs::exists(here_.path() / "run" / "stores.json"); });
  program.send(SIGTERM);
  const Outcome stopped = program.wait();
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr(kAnswer));
  EXPECT_THAT(stopped.err, HasSubstr("stopped after 0 of 2 rounds"));
  const auto resumed = run_to_summary(many + Arguments{"--resume"}, here_.path(), "run");
  EXPECT_EQ(resumed["state_hash"], whole["state_hash"]);
}

// mpirun passes SIGUSR1 on and waits.
TEST_F(Signals, OnSeveralRanksARoundIsSavedThatTakesLongerThanLaunchersWait) {
  Program program(small_ + run_ + slow_, here_.path(), on_ranks(2));
  wait_until(program, [&] { return rounds() == 1; });
  program.send(SIGUSR1);
  wait_until(program, [&] { return program.said().find(kAnswer) != std::string::npos; });
  EXPECT_EQ(rounds(), 1U) << "it was to be said before the round ends";
  const Outcome stopped = program.wait();
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("stopped after 2 of 3 rounds; the checkpoint is in " +
                                     (here_.path() / "run/store/rank-0-of-2").string()));
  EXPECT_EQ(checkpoints_in_trace(), 2) << "each rank's";
  expect_it_goes_on_from(2, 2);
}

}  // namespace
}  // namespace shoal
