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

CheckpointNote note_of(std::uint64_t rounds, const TrainOptions& made) {
  CheckpointNote note;
  note.rounds_done = rounds;
  note.take_settings(made);
  note.contents = {{"graph", "0123"}, {"data", "4567"}};
  return note;
}

// The message of the refusal; empty when there is none.
std::string refusal(const CheckpointNote& note, const CheckpointNote& now) {
  try {
    note.require_same(now);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
    return error.what();
  }
}

std::string refusal(const CheckpointNote& note, const TrainOptions& now) { return refusal(note, note_of(0, now)); }

TEST(CheckpointNote, ComesBackFromItsText) {
  CheckpointNote note = note_of(17, options());
  note.owners = "89ab";
  note.set_results_folder("/runs/a", "/runs/a/store");
  const CheckpointNote parsed = CheckpointNote::parse(note.text());
  EXPECT_EQ(parsed.rounds_done, 17U);
  EXPECT_EQ(parsed.settings, note.settings);
  EXPECT_EQ(parsed.contents, note.contents);
  EXPECT_EQ(parsed.owners, "89ab");
  EXPECT_EQ(parsed.out, note.out);
  EXPECT_EQ(refusal(parsed, note), "");
}

TEST(CheckpointNote, FindsTheResultsOfARunThatWasMovedWithItsStore) {
  CheckpointNote note;
  note.set_results_folder("/runs/a", "/runs/a/store/rank-0-of-2");
  EXPECT_EQ(note.results_folder("/runs/a/store/rank-0-of-2"), "/runs/a");
  EXPECT_EQ(note.results_folder("/archive/b/store/rank-0-of-2"), "/archive/b");
  note.set_results_folder("/runs/a/", "/nvme/store");
  EXPECT_EQ(note.results_folder("/nvme2/store"), "/runs/a");
}

TEST(CheckpointNote, NamesWhatHasChangedBehindItsName) {
  TrainOptions made = options();
  made.graph = "file:friends.txt";
  const CheckpointNote note = note_of(3, made);
  CheckpointNote now = note;
  EXPECT_EQ(refusal(note, now), "");
  now.contents["graph"] = "0124";
  const std::string message = refusal(note, now);
  EXPECT_THAT(message, testing::HasSubstr("--graph \"file:friends.txt\""));
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("--data")));
}

TEST(CheckpointNote, RefusesNodesThatWouldBeOtherRanks) {
  CheckpointNote note = note_of(3, options());
  note.owners = "89ab";
  CheckpointNote now = note;
  now.owners = "89ac";
  try {
    note.require_same(now);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("other ranks"));
  }
}

TEST(CheckpointNote, RefusesWhatItDidNotWrite) {
  for (const char* text :
       {"", "round 3", "{}", "{\"rounds_done\": -1}", "[1]", "{\"rounds_done\":1,\"settings\":{}}"}) {
    EXPECT_THROW(static_cast<void>(CheckpointNote::parse(text)), Error) << text;
  }
}

TEST(CheckpointNote, NamesAllSettingsThatChangedAndNoOthers) {
  const CheckpointNote note = note_of(1, options());
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
  const CheckpointNote note = note_of(1, options());
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
  const CheckpointNote note = note_of(1, cosine);
  EXPECT_EQ(refusal(note, cosine), "");
  cosine.rounds += 1;
  EXPECT_THAT(refusal(note, cosine), testing::HasSubstr("--rounds (was 20, is 21)"));
}

TEST(CheckpointNote, NamesSettingsThatAnotherVersionHadOrDoesNotHave) {
  CheckpointNote note = note_of(1, options());
  note.settings["phase-of-moon"] = "full";
  note.settings.erase("batch");
  const std::string message = refusal(note, options());
  EXPECT_THAT(message, testing::HasSubstr("--phase-of-moon (was full, is not there)"));
  EXPECT_THAT(message, testing::HasSubstr("--batch (was not there, is 64)"));
}

}  // namespace
}  // namespace shoal
