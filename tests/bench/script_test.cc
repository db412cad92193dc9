#include "bench/script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace shoal::bench {
namespace {

// "fill" is unmeasured, "+fill" measured.
std::vector<std::string> words(std::vector<Verb> verbs, ScriptOptions options) {
  std::vector<std::string> result;
  for (const ScriptItem& item : make_script(verbs, options)) {
    result.push_back((item.measured ? "+" : "") + std::string(name(item.verb)));
  }
  return result;
}

TEST(Script, FillsBeforeAnythingElseAndInspectsAtTheEnd) {
  EXPECT_THAT(words({Verb::kStream}, {2, 1}), testing::ElementsAre("fill", "stream", "+stream", "+stream", "inspect"));
  EXPECT_THAT(words({}, {2, 1}), testing::ElementsAre("fill", "inspect"));
}

TEST(Script, MeasuresTheFillOnceAndOnAnEmptyEngine) {
  EXPECT_THAT(words({Verb::kFill}, {5, 1}), testing::ElementsAre("+fill", "inspect"));
}

TEST(Script, ChangesSomethingBeforeEachCheckpointAndHasOneBeforeARestore) {
  EXPECT_THAT(words({Verb::kFill, Verb::kCheckpoint}, {2, 1}),
              testing::ElementsAre("+fill", "stream", "+checkpoint", "stream", "+checkpoint", "inspect"));
  EXPECT_THAT(words({Verb::kFill, Verb::kRestore}, {1, 1}),
              testing::ElementsAre("+fill", "checkpoint", "+restore", "inspect"));
}

TEST(Script, UndoesDemotionsBetweenRepetitions) {
  EXPECT_THAT(
      words({Verb::kFill, Verb::kDemote, Verb::kPromote}, {2, 0}),
      testing::ElementsAre("+fill", "+demote", "promote", "+demote", "+promote", "demote", "+promote", "inspect"));
}

}  // namespace
}  // namespace shoal::bench
