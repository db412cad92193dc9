#include "pipeline/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

using testing::ElementsAre;

class TraceTest : public testing::Test {
 protected:
  nlohmann::json written(const Trace& trace) const {
    trace.write(folder_.path() / "trace.json");
    std::ifstream file(folder_.path() / "trace.json");
    return nlohmann::json::parse(file).at("traceEvents");
  }

  // The rounds of events with this name, or nodes.
  std::vector<int> numbers(const nlohmann::json& events, const std::string& name, const char* what) const {
    std::vector<int> found;
    for (const auto& event : events) {
      if (event.at("name") == name) found.push_back(event.at("args").at(what));
    }
    return found;
  }

  void round(Trace& trace, int number, int nodes) const {
    for (int node = 0; node < nodes; ++node) {
      trace.add("compute", 0, now_, now_, static_cast<std::uint64_t>(100 * number + node));
    }
    trace.end_round(now_, now_, static_cast<std::uint64_t>(number));
  }

  const Clock::time_point now_ = Clock::now();
  TemporaryDirectory folder_;
};

TEST_F(TraceTest, DrawsRoundsThatAreThereInFullAndAllRoundsThemselves) {
  Trace trace(10, 10);
  trace.start_nodes();
  for (int number = 0; number < 4; ++number) round(trace, number, 4);  // the third would need 12 places
  const auto events = written(trace);
  EXPECT_THAT(numbers(events, "round", "round"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(numbers(events, "compute", "node"), ElementsAre(0, 1, 2, 3, 100, 101, 102, 103));
  EXPECT_EQ(trace.report().events, 12U);
  EXPECT_EQ(trace.report().left_out, 8U);
  EXPECT_EQ(trace.report().rounds, 4U);
  EXPECT_EQ(trace.report().rounds_with_nodes, 2U);
}

TEST_F(TraceTest, DrawsWhatItHasOfAFirstRoundThatIsTooLarge) {
  Trace trace(3, 10);
  trace.start_nodes();
  round(trace, 0, 5);
  EXPECT_THAT(numbers(written(trace), "compute", "node"), ElementsAre(0, 1, 2));
  EXPECT_EQ(trace.report().left_out, 2U);
  EXPECT_EQ(trace.report().rounds_with_nodes, 0U);
}

TEST_F(TraceTest, LeavesOutWhatComesBeforeTheNodesCount) {
  Trace trace(10, 10);
  trace.add("compute", 0, now_, now_, 7);
  trace.add_to_round("creating nodes", now_, now_, Trace::kNoNumber);
  trace.start_nodes();
  trace.add("compute", 0, now_, now_, 8);
  const auto events = written(trace);
  EXPECT_THAT(numbers(events, "compute", "node"), ElementsAre(8));
  EXPECT_EQ(trace.report().left_out, 0U);
}

TEST_F(TraceTest, NamesItsLanes) {
  Trace trace(10, 10);
  trace.start_nodes();
  trace.add("mix", 1, now_, now_, 3);
  trace.add("waiting for compute", Trace::kReadyLane, now_, now_);
  trace.add("waiting for write-back", Trace::kStoreLane, now_, now_);
  trace.end_round(now_, now_, 0);
  std::vector<std::string> names;
  for (const auto& event : written(trace)) {
    if (event.at("name") == "thread_name") names.push_back(event.at("args").at("name"));
  }
  EXPECT_THAT(names, ElementsAre("worker 1", "rounds", "nodes that are ready", "store"));
}

}  // namespace
}  // namespace shoal
