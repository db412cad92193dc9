#include "pipeline/trace_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "store/error.h"
#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;
using testing::Pair;
using testing::ThrowsMessage;

class TraceTest : public testing::Test {
 protected:
  // As ranks do it: turn by turn, in pieces.
  nlohmann::json written(const std::vector<const Trace*>& ranks, std::size_t piece) const {
    std::vector<TraceText> texts;
    for (unsigned rank = 0; rank < ranks.size(); ++rank) {
      texts.emplace_back(*ranks[rank], rank, fmt::format("rank {}", rank));
    }
    TraceFile file(folder_.path() / "trace.json");
    for (bool more = true; more;) {
      more = false;
      for (TraceText& text : texts) {
        const std::string next = text.next(piece);
        file.add(next);
        more = more || !next.empty();
      }
    }
    file.finish();
    std::ifstream in(folder_.path() / "trace.json");
    return nlohmann::json::parse(in).at("traceEvents");
  }
  nlohmann::json written(const Trace& trace) const { return written({&trace}, 1 << 20); }

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
  EXPECT_THAT(names, ElementsAre("rounds", "worker 1", "nodes that are ready", "store"));
}

TEST_F(TraceTest, MakesOneFileOfSeveralRanksWhateverThePieces) {
  Trace first(10, 10);
  Trace second(10, 10);
  const Trace idle(10, 10);
  for (Trace* trace : {&first, &second}) trace->start_nodes();
  for (int number = 0; number < 2; ++number) round(first, number, 4);
  round(second, 7, 1);
  for (const std::size_t piece : {1, 150, 1 << 20}) {
    SCOPED_TRACE(piece);
    std::map<int, std::vector<std::string>> names;
    std::map<int, nlohmann::json> drawn;
    for (const auto& event : written({&first, &second, &idle}, piece)) {
      if (event.at("name") == "process_name") names[event.at("pid")].push_back(event.at("args").at("name"));
      if (event.at("ph") == "X") drawn[event.at("pid")].push_back(event);
    }
    EXPECT_THAT(names, ElementsAre(Pair(1, ElementsAre("rank 0")), Pair(2, ElementsAre("rank 1")),
                                   Pair(3, ElementsAre("rank 2"))));
    ASSERT_THAT(drawn, ElementsAre(Key(1), Key(2)));
    EXPECT_THAT(numbers(drawn[1], "round", "round"), ElementsAre(0, 1));
    EXPECT_THAT(numbers(drawn[1], "compute", "node"), ElementsAre(0, 1, 2, 3, 100, 101, 102, 103));
    EXPECT_THAT(numbers(drawn[2], "round", "round"), ElementsAre(7));
    EXPECT_THAT(numbers(drawn[2], "compute", "node"), ElementsAre(700));
  }
}

TEST_F(TraceTest, AFileThatCannotBeWrittenIsNamed) {
  EXPECT_THAT([&] { TraceFile(folder_.path() / "missing" / "trace.json"); },
              ThrowsMessage<Error>(HasSubstr("missing/trace.json: cannot be written")));
}

}  // namespace
}  // namespace shoal
