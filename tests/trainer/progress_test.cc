#include "trainer/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <vector>

#include "tests/store/temporary_directory.h"
#include "trainer/run_speed.h"

namespace shoal {
namespace {

using testing::ElementsAre;
using testing::MatchesRegex;

RunSpeed::Time at(double seconds) {
  return RunSpeed::Time(std::chrono::duration_cast<RunSpeed::Time::duration>(std::chrono::duration<double>(seconds)));
}

TEST(RunSpeed, CountsStepsAndScalesTheTimeThatPassed) {
  RunSpeed speed("node-steps", 4, at(100));
  EXPECT_EQ(speed.text(0, at(100)), "") << "nothing is known yet";
  speed.begin_round(50, 50, at(100));
  EXPECT_EQ(speed.text(10, at(102)), "5.0 node-steps/s, 38 s left");
  EXPECT_DOUBLE_EQ(speed.done(10), 0.05);
  speed.end_steps(50, 10);
  speed.end_round();
  EXPECT_EQ(speed.text(0, at(110)), "5.0 node-steps/s, 30 s left");
  EXPECT_DOUBLE_EQ(speed.done(0), 0.25);
}

TEST(RunSpeed, EvaluationsTakeTimeButNoSpeed) {
  RunSpeed speed("node-steps", 2, at(0));
  speed.begin_round(100, 100, at(0));
  speed.end_steps(100, 10);
  EXPECT_EQ(speed.text(100, at(40)), "10.0 node-steps/s, 40 s left");
  speed.end_round();
  EXPECT_EQ(speed.text(100, at(40)), "10.0 node-steps/s, 40 s left");
  speed.begin_round(100, 100, at(40));
  speed.end_steps(100, 10);
  speed.end_round();
  EXPECT_EQ(speed.text(0, at(50)), "10.0 node-steps/s, 0 s left");
}

TEST(RunSpeed, RoundsInWhichNobodyTrainsCountAsRounds) {
  RunSpeed speed("node-steps", 100, at(0));
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t steps = round == 4 ? 1 : 0;  // less than one a round
    speed.begin_round(steps, steps, at(round));
    speed.end_steps(steps, 1);
    speed.end_round();
  }
  EXPECT_EQ(speed.text(0, at(10)), "0.1 node-steps/s, 1:30 min left");
}

TEST(RunSpeed, IsThatOfAllRanksTogether) {
  RunSpeed speed("node-steps", 2, at(0));
  speed.begin_round(25, 100, at(0));
  EXPECT_EQ(speed.text(5, at(10)), "2.0 node-steps/s, 1:30 min left") << "the others are taken to be as far";
  speed.end_steps(100, 40);
  speed.end_round();
  EXPECT_EQ(speed.text(25, at(40)), "2.5 node-steps/s, 40 s left");
}

TEST(RunSpeed, TellsHoursFromMinutes) {
  RunSpeed speed("node-steps", 1000, at(0));
  speed.begin_round(1, 1, at(0));
  speed.end_steps(1, 10);
  speed.end_round();
  EXPECT_EQ(speed.text(0, at(10)), "0.1 node-steps/s, 2:46 h left");
}

TEST(Progress, SaysOfEveryRoundHowFastItIsWhatIsLeftAndTheFigures) {
  const TemporaryDirectory folder;
  const auto file = folder.path() / "rank-0.log";
  {
    Progress progress(Talk::kNothing, file);
    progress.begin("creating nodes", 3);
    for (int i = 0; i < 3; ++i) progress.step_done();
    progress.end();
    progress.begin_training(7, 5);
    for (const char* figures : {"nobody trained", "loss 0.5000"}) {
      progress.begin_round(4, 8);
      for (int i = 0; i < 4; ++i) progress.step_done();
      progress.end_steps(8, 0.01);
      progress.round_done(figures);
    }
    progress.say("the end");
  }
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  EXPECT_THAT(lines,
              ElementsAre(MatchesRegex("training round 6/7, 800.0 node-steps/s, [0-9]+ s left, nobody trained"),
                          MatchesRegex("training round 7/7, 800.0 node-steps/s, 0 s left, loss 0.5000"), "the end"));
}

}  // namespace
}  // namespace shoal
