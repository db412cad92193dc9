#include "trainer/checkpoint_note.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/error.h"

namespace shoal {
namespace {

TrainOptions options() {
  TrainOptions made;
  made.graph = "ring";
  made.threads = 2;
  made.ram_bytes = 1 << 30;
  return made;
}

// The message of the refusal; empty when there is none.
std::string refusal(const CheckpointNote& note, const TrainOptions& now) {
  try {
    note.require_same(now);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
    return error.what();
  }
}

TEST(CheckpointNote, ComesBackFromItsText) {
  const CheckpointNote note = CheckpointNote::of(17, options());
  const CheckpointNote parsed = CheckpointNote::parse(note.text());
  EXPECT_EQ(parsed.rounds_done, 17U);
  EXPECT_EQ(parsed.settings, note.settings);
  EXPECT_EQ(refusal(parsed, options()), "");
}

TEST(CheckpointNote, RefusesWhatItDidNotWrite) {
  for (const char* text :
       {"", "round 3", "{}", "{\"rounds_done\": -1}", "[1]", "{\"rounds_done\":1,\"settings\":[]}"}) {
    EXPECT_THROW(static_cast<void>(CheckpointNote::parse(text)), Error) << text;
  }
}

TEST(CheckpointNote, NamesAllSettingsThatChangedAndNoOthers) {
  const CheckpointNote note = CheckpointNote::of(1, options());
  TrainOptions changed = options();
  changed.seed = 2;
  changed.optimizer.momentum = 0.5;
  const std::string message = refusal(note, changed);
  EXPECT_THAT(message, testing::HasSubstr("--seed (was 1, is 2)"));
  EXPECT_THAT(message, testing::HasSubstr("--momentum (was 0.9, is 0.5)"));
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("--lr ")));
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("\n")));
}

TEST(CheckpointNote, LetsChangeWhatDoesNotChangeTheResult) {
  const CheckpointNote note = CheckpointNote::of(1, options());
  TrainOptions changed = options();
  changed.rounds = 1000;
  changed.threads = 7;
  changed.ram_bytes = 5;
  changed.store_io = IoEngine::kPosix;
  changed.checkpoint_every = 3;
  changed.eval_every = 9;
  changed.eval_nodes = 1;
  changed.out = "elsewhere";
  changed.store = "there";
  changed.cold = "cellar";
  changed.warm_bytes = 1 << 20;
  changed.trace = true;
  changed.strict = true;
  changed.quiet = true;
  EXPECT_EQ(refusal(note, changed), "");
}

TEST(CheckpointNote, TheNumberOfRoundsCountsWhereTheLearningRateDependsOnIt) {
  TrainOptions cosine = options();
  cosine.lr_schedule = "cosine";
  const CheckpointNote note = CheckpointNote::of(1, cosine);
  EXPECT_EQ(refusal(note, cosine), "");
  cosine.rounds += 1;
  EXPECT_THAT(refusal(note, cosine), testing::HasSubstr("--rounds (was 20, is 21)"));
}

TEST(CheckpointNote, NamesSettingsThatAnotherVersionHadOrDoesNotHave) {
  CheckpointNote note = CheckpointNote::of(1, options());
  note.settings["phase-of-moon"] = "full";
  note.settings.erase("batch");
  const std::string message = refusal(note, options());
  EXPECT_THAT(message, testing::HasSubstr("--phase-of-moon (was full, is not there)"));
  EXPECT_THAT(message, testing::HasSubstr("--batch (was not there, is 64)"));
}

}  // namespace
}  // namespace shoal
