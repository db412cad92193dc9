// A run's files: which stores are its own, going on elsewhere and on other ranks, and that nobody else's are touched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "tests/e2e/program.h"
#include "tests/trainer/script_files.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Stores : public testing::Test {
 protected:
  nlohmann::json run(const Arguments& arguments, const fs::path& out, unsigned ranks = 1) const {
    return run_to_summary(small_ + arguments, here_.path(), out, on_ranks(ranks));
  }

  // Says this, and leaves every file as it was.
  void expect_refused(const Arguments& arguments, const fs::path& out, const std::string& named,
                      unsigned ranks = 1) const {
    SCOPED_TRACE(testing::PrintToString(arguments));
    const auto before = contents_of(here_.path());
    const Outcome outcome = run_program(small_ + arguments + Arguments{"--out", out}, here_.path(), on_ranks(ranks));
    EXPECT_NE(outcome.code, 0);
    EXPECT_THAT(outcome.err, HasSubstr(named));
    EXPECT_EQ(contents_of(here_.path()), before);
  }

  // Below the test's folder; folders are not listed.
  std::vector<std::string> files_in(const fs::path& folder) const {
    std::vector<std::string> names;
    if (!fs::exists(here_.path() / folder)) return names;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(here_.path() / folder)) {
      if (!entry.is_directory()) names.push_back(entry.path().lexically_relative(here_.path()).string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  // Folders with a store in them.
  std::vector<std::string> stores_in(const fs::path& folder) const {
    std::vector<std::string> names;
    for (const std::string& file : files_in(folder)) {
      if (fs::path(file).filename() == "public.slab") names.push_back(fs::path(file).parent_path().string());
    }
    return names;
  }

  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((here_.path() / file).parent_path());
    std::ofstream(here_.path() / file) << text;
  }

  const Arguments small_ = {"--quiet",
                            "--model",
                            "quadratic:2000:1:0.1",
                            "--nodes",
                            "24",
                            "--graph",
                            "ring",
                            "--ram",
                            "64MiB",
                            "--init",
                            "independent",
                            "--threads",
                            "1",
                            "--checkpoint-every",
                            "2"};
  TemporaryDirectory here_;
};

using StoresMove = Stores;  // to another number of ranks

TEST_F(StoresMove, NeverOverwriteAnotherRuns) {
  const auto whole = run({"--rounds", "6"}, "whole");
  ASSERT_TRUE(run({"--rounds", "2", "--store", "both"}, "a", 2).is_object());
  ASSERT_TRUE(run({"--rounds", "2", "--store", "both"}, "b", 3).is_object());
  expect_refused({"--rounds", "6", "--store", "both", "--resume"}, "a", "is not of the run in a", 3);
  EXPECT_EQ(run({"--rounds", "6", "--store", "both", "--resume"}, "b", 3)["state_hash"], whole["state_hash"]);
  EXPECT_EQ(run({"--rounds", "6", "--store", "both", "--resume"}, "a", 2)["state_hash"], whole["state_hash"]);
}

TEST_F(StoresMove, OfACopyLeaveTheOriginalAlone) {
  const auto whole = run({"--rounds", "6"}, "whole");
  ASSERT_TRUE(run({"--rounds", "2"}, "a", 2).is_object());
  fs::copy(here_.path() / "a", here_.path() / "copy", fs::copy_options::recursive);
  const auto before = contents_of(here_.path() / "a");
  EXPECT_EQ(run({"--rounds", "6", "--resume"}, "copy", 3)["state_hash"], whole["state_hash"]);
  EXPECT_EQ(contents_of(here_.path() / "a"), before);
  // And a run whose folder has another name now finds its stores in it.
  fs::rename(here_.path() / "a", here_.path() / "renamed");
  EXPECT_EQ(run({"--rounds", "6", "--resume"}, "renamed", 3)["state_hash"], whole["state_hash"]);
  EXPECT_THAT(stores_in("renamed"),
              ElementsAre("renamed/store/rank-0-of-3", "renamed/store/rank-1-of-3", "renamed/store/rank-2-of-3"));
}

TEST_F(StoresMove, OfACopyOfTheResultsLeaveTheStoresToTheOriginal) {
  const auto whole = run({"--rounds", "6"}, "whole");
  ASSERT_TRUE(run({"--rounds", "2", "--store", "disk"}, "a", 2).is_object());
  fs::copy(here_.path() / "a", here_.path() / "copy", fs::copy_options::recursive);
  EXPECT_EQ(run({"--rounds", "6", "--store", "disk", "--resume"}, "copy", 3)["state_hash"], whole["state_hash"]);
  EXPECT_EQ(run({"--rounds", "6", "--store", "disk", "--resume"}, "a", 2)["state_hash"], whole["state_hash"]);
}

TEST_F(StoresMove, LookAtAllThatTheyReadBeforeTheyMakeAnything) {
  ASSERT_TRUE(run({"--rounds", "2"}, "a", 2).is_object());
  const std::string old_list = read_text(here_.path() / "a" / "stores.json");
  ASSERT_TRUE(run({"--rounds", "4", "--resume"}, "a", 3).is_object());
  const std::string new_list = read_text(here_.path() / "a" / "stores.json");
  write("a/stores.json", old_list);
  expect_refused({"--rounds", "6", "--resume"}, "a", "the store of its rank", 3);
  write("a/stores.json", new_list);
  EXPECT_EQ(run({"--rounds", "6", "--resume"}, "a", 3)["resumed_at_round"], 4);
}

using StoresResume = Stores;

TEST_F(StoresResume, InAnotherResultsFolderWithTheMetricsOfAllRounds) {
  const auto whole = run({"--rounds", "9"}, "whole");
  ASSERT_TRUE(run({"--rounds", "3"}, "first").is_object());
  ASSERT_TRUE(run({"--rounds", "6", "--store", "first/store", "--resume"}, "second").is_object());
  EXPECT_EQ(metrics_of(here_.path() / "first").size(), 3U);
  // And back: the store says where the last rounds' results are.
  ASSERT_TRUE(run({"--rounds", "9", "--resume"}, "first").is_object());
  expect_same_results(here_.path() / "first", here_.path() / "whole");
  // The store is the first's again, and goes with that one alone.
  expect_refused({"--rounds", "1", "--store", "first/store", "--overwrite"}, "second", "is of the run in");
  ASSERT_TRUE(run({"--rounds", "1", "--overwrite"}, "second").is_object());
  EXPECT_EQ(run({"--rounds", "9", "--resume"}, "first")["state_hash"], whole["state_hash"]);
}

TEST_F(StoresResume, InAnotherResultsFolderOnSeveralRanks) {
  ASSERT_TRUE(run({"--rounds", "6"}, "whole").is_object());
  ASSERT_TRUE(run({"--rounds", "3", "--store", "disk"}, "first", 2).is_object());
  ASSERT_TRUE(run({"--rounds", "6", "--store", "disk", "--resume"}, "second", 2).is_object());
  expect_same_results(here_.path() / "second", here_.path() / "whole");
  // Nothing is left to train: what is missing of the results is written again.
  for (const char* file : {"nodes.csv", "summary.json"}) fs::remove(here_.path() / "second" / file);
  ASSERT_TRUE(run({"--rounds", "6", "--store", "disk", "--resume"}, "second", 2).is_object());
  expect_same_results(here_.path() / "second", here_.path() / "whole");
}

TEST_F(StoresResume, WhereTheFirstResultsAreGoneMetricsBeginAtTheCheckpoint) {
  const auto whole = run({"--rounds", "6"}, "whole");
  ASSERT_TRUE(run({"--rounds", "3", "--store", "disk"}, "first").is_object());
  fs::remove_all(here_.path() / "first");
  Arguments loud = small_ + Arguments{"--rounds", "6", "--store", "disk", "--resume", "--out", "second"};
  loud.erase(std::find(loud.begin(), loud.end(), "--quiet"));
  const Outcome outcome = run_program(loud, here_.path());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("metrics.jsonl lacks the lines of rounds 0 to 2"));
  EXPECT_EQ(summary_of(here_.path() / "second")["state_hash"], whole["state_hash"]);
  EXPECT_EQ(metrics_of(here_.path() / "second").front()["round"], 3);
}

TEST_F(StoresResume, NotWithTheStoreOfAnotherRunThatHasTheSameSettings) {
  ASSERT_TRUE(run({"--rounds", "2"}, "a").is_object());
  ASSERT_TRUE(run({"--rounds", "4"}, "b").is_object());
  expect_refused({"--rounds", "6", "--store", "b/store", "--resume"}, "a", "is another run's");
  ASSERT_TRUE(run({"--rounds", "2"}, "c", 2).is_object());
  ASSERT_TRUE(run({"--rounds", "4"}, "d", 2).is_object());
  fs::rename(here_.path() / "c/store/rank-1-of-2", here_.path() / "kept");
  fs::copy(here_.path() / "d/store/rank-1-of-2", here_.path() / "c/store/rank-1-of-2", fs::copy_options::recursive);
  expect_refused({"--rounds", "6", "--resume"}, "c", "is another run's", 2);
  expect_refused({"--rounds", "6", "--resume"}, "c", "is another run's", 3);
  // Nor where no stores.json could tell.
  expect_refused({"--rounds", "6", "--store", "c/store", "--resume"}, "e", "not of one run", 2);
}

TEST_F(StoresResume, NotWithAnotherGraphUnderTheSameName) {
  const Arguments arguments = {"--quiet",  "--model", "quadratic:8",        "--ram", "64MiB", "--graph", "file:net",
                               "--rounds", "2",       "--checkpoint-every", "1",     "--out", "run"};
  write("net", "0 1\n1 2\n2 3\n3 0\n");
  ASSERT_EQ(run_program(arguments, here_.path()).code, 0);
  write("net", "0 1\n1 2\n2 3\n3 1\n");
  const Outcome refused = run_program(arguments + Arguments{"--resume"}, here_.path());
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--graph \"file:net\""));
  write("net", "# the same again\n3 0\n0 1\n1 2\n2 3\n");
  EXPECT_EQ(run_program(arguments + Arguments{"--resume"}, here_.path()).code, 0);
}

TEST_F(StoresResume, NotWithOtherImagesOrAnotherScriptUnderTheSameName) {
  const Arguments arguments = {"--quiet",
                               "--model",
                               "script:net.pt",
                               "--data",
                               "mnist:images",
                               "--batch",
                               "4",
                               "--nodes",
                               "4",
                               "--graph",
                               "ring",
                               "--ram",
                               "128MiB",
                               "--rounds",
                               "2",
                               "--checkpoint-every",
                               "1",
                               "--out",
                               "run"};
  write_small_mnist(here_.path() / "images", 40, 16);
  write_constant_script(here_.path() / "net.pt", 0.1);
  const Outcome first = run_program(arguments, here_.path());
  ASSERT_EQ(first.code, 0) << first.err;
  write_constant_script(here_.path() / "net.pt", 0.2);
  const Outcome script = run_program(arguments + Arguments{"--resume"}, here_.path());
  EXPECT_EQ(script.code, 2);
  EXPECT_THAT(script.err, HasSubstr("--model \"script:net.pt\""));
  EXPECT_THAT(script.err, Not(HasSubstr("--data")));
  write_constant_script(here_.path() / "net.pt", 0.1);
  write_small_mnist(here_.path() / "images", 40, 18);
  const Outcome images = run_program(arguments + Arguments{"--resume"}, here_.path());
  EXPECT_EQ(images.code, 2);
  EXPECT_THAT(images.err, HasSubstr("--data \"mnist:images\""));
  EXPECT_THAT(images.err, Not(HasSubstr("--model")));
}

}  // namespace
}  // namespace shoal
