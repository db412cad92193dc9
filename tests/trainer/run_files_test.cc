#include "trainer/run_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "store/error.h"
#include "tests/store/temporary_directory.h"
#include "trainer/run_stores.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class RunFilesTest : public testing::Test {
 protected:
  RunFilesTest() { options_.out = folder_.path() / "run"; }

  void write(const std::string& name) const {
    fs::create_directories(options_.out);
    std::ofstream(options_.out / name) << "not Shoal's";
  }
  std::string refusal(bool resume, bool overwrite) {
    options_.resume = resume;
    options_.overwrite = overwrite;
    try {
      RunFiles::check(options_);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(options_.out)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryDirectory folder_;
  TrainOptions options_;
};

TEST_F(RunFilesTest, AnEmptyFolderOrNoneIsFree) {
  EXPECT_EQ(refusal(false, false), "");
  EXPECT_FALSE(fs::exists(options_.out)) << "to look at it must not make it";
  fs::create_directory(options_.out);
  write("thesis.tex");
  EXPECT_EQ(refusal(false, false), "");
}

TEST_F(RunFilesTest, ARunIsReplacedOrGoneOnWithOnlyWhenAskedFor) {
  write(RunStores::kFile);
  write("metrics.jsonl");
  EXPECT_THAT(refusal(false, false), HasSubstr("holds a run already"));
  EXPECT_EQ(refusal(true, false), "");
  EXPECT_EQ(refusal(false, true), "");
}

TEST_F(RunFilesTest, FilesThatNoRunHasLeftThereAreNamedAndReplacedOnlyWhenAskedFor) {
  write("summary.json");
  write("nodes.csv");
  for (const bool resume : {false, true}) {
    EXPECT_THAT(refusal(resume, false), HasSubstr("nodes.csv, summary.json"));
  }
  EXPECT_EQ(refusal(false, true), "");
}

TEST_F(RunFilesTest, AFolderThatCannotBeIsRefused) {
  write("file");
  options_.out = options_.out / "file" / "run";
  for (const bool overwrite : {false, true}) {
    EXPECT_THAT(refusal(false, overwrite), HasSubstr("Not a directory"));
  }
}

TEST_F(RunFilesTest, RemovesResultsByNameAndNothingElse) {
  for (const char* name :
       {"config.toml", "metrics.jsonl", "metrics.jsonl.new", "nodes.csv", "node_names.csv", "summary.json",
        "report.html", "trace.json", RunStores::kFile, "thesis.tex", "trace.json.txt", "notes.csv"}) {
    write(name);
  }
  RunFiles files(options_.out);
  files.remove_results();
  EXPECT_THAT(names(), ElementsAre("notes.csv", RunStores::kFile, "thesis.tex", "trace.json.txt"));
  files.remove_everything();
  EXPECT_THAT(names(), ElementsAre("notes.csv", "thesis.tex", "trace.json.txt"));
}

TEST_F(RunFilesTest, MetricsGoOnFromTheRoundThatIsDoneAlsoInAnotherFolder) {
  RunFiles files(options_.out);
  files.begin_metrics();
  for (int round = 0; round < 4; ++round) files.add_metrics({{"round", round}});
  std::ofstream(options_.out / "metrics.jsonl", std::ios::app) << "{\"round\": 4, \"lo";
  RunFiles others(folder_.path() / "other");
  EXPECT_EQ(others.continue_metrics(options_.out, 3)["round"], 2);
  others.add_metrics({{"round", 3}, {"new", true}});
  std::ifstream in(folder_.path() / "other" / "metrics.jsonl");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  EXPECT_THAT(lines, ElementsAre("{\"round\":0}", "{\"round\":1}", "{\"round\":2}", "{\"new\":true,\"round\":3}"));
  EXPECT_TRUE(others.continue_metrics(folder_.path() / "nowhere", 3).is_null());
}

}  // namespace
}  // namespace shoal
