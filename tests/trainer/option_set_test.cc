#include "trainer/option_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <random>

#include "store/error.h"
#include "tests/store/temporary_directory.h"
#include "trainer/toml_file.h"

namespace shoal {
namespace {

using testing::HasSubstr;

enum class Way { kSlow, kQuick };

// A small program: one option of each kind, and two that belong to one way each.
struct Program {
  std::uint32_t count = 3;
  std::uint64_t seed = 1;
  double share = 0.5;
  bool loud = false;
  std::string name = "somebody";
  std::filesystem::path folder;
  std::uint64_t bytes = 0;
  Way way = Way::kSlow;
  std::uint32_t patience = 7;
  bool once = false;

  OptionSet set;
  TemporaryDirectory here;

  Program() {
    set.section("Figures", true);
    set.whole("count", count, "How many", 1, 10);
    set.whole("seed", seed, "Of all");
    set.real("share", share, {.least = 0, .most = 1, .most_itself = false}, "Part");
    set.flag("loud", loud, "Say more");
    set.section("Places", false);
    set.text("name", name, "Whose");
    set.path("folder", folder, "Where");
    set.size("bytes", bytes, 0, "How large");
    set.choice("way", way, {{"slow", Way::kSlow}, {"quick", Way::kQuick}}, "How");
    set.whole("patience", patience, "slow: how long").only_for("way", "slow");
    set.flag("once", once, "Of one call").command_line_only();
  }

  std::optional<std::string> parse(const std::vector<std::string>& arguments) {
    std::vector<const char*> argv = {"program"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    return set.parse({"program", "1.2", "It does.", "The end."}, static_cast<int>(argv.size()), argv.data());
  }

  std::string config(const std::string& text) const {
    std::ofstream(here.path() / "run.toml", std::ios::binary) << text;
    return (here.path() / "run.toml").string();
  }
};

std::string refusal(const std::vector<std::string>& arguments, const std::string& config = "") {
  Program program;
  std::vector<std::string> all = arguments;
  if (!config.empty()) all.insert(all.end(), {"--config", program.config(config)});
  try {
    program.parse(all);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
    return error.what();
  }
  ADD_FAILURE() << "it was taken: " << testing::PrintToString(all);
  return "";
}

TEST(OptionSet, FlagsAreTakenAndTheRestKeepsItsDefault) {
  Program program;
  EXPECT_FALSE(program.parse(
      {"--count", "5", "--share=0.25", "--loud", "--folder", "a b", "--bytes", "2KiB", "--way", "quick"}));
  EXPECT_EQ(program.count, 5U);
  EXPECT_EQ(program.share, 0.25);
  EXPECT_TRUE(program.loud);
  EXPECT_EQ(program.name, "somebody");
  EXPECT_EQ(program.folder, "a b");
  EXPECT_EQ(program.bytes, 2048U);
  EXPECT_EQ(program.way, Way::kQuick);
  EXPECT_TRUE(program.set.given("count"));
  EXPECT_FALSE(program.set.given("name"));
}

TEST(OptionSet, FlagsWinOverTheFile) {
  Program program;
  const std::string file = program.config("count = 2\nname = \"filed\"\nloud = true\nshare = 0\nbytes = 4096\n");
  EXPECT_FALSE(program.parse({"--name", "flagged", "--config", file, "--loud=false"}));
  EXPECT_EQ(program.count, 2U);
  EXPECT_EQ(program.name, "flagged");
  EXPECT_FALSE(program.loud);
  EXPECT_EQ(program.share, 0);
  EXPECT_EQ(program.bytes, 4096U);
  EXPECT_TRUE(program.set.given("count"));
}

TEST(OptionSet, AWrongFlagIsRefusedByItsName) {
  EXPECT_EQ(refusal({"--count", "11"}), "--count 11: it must be a whole number from 1 to 10");
  EXPECT_EQ(refusal({"--count", "5000000000"}), "--count 5000000000: it must be a whole number from 1 to 10");
  EXPECT_EQ(refusal({"--count", "-1"}), "--count -1: it must be a whole number from 1 to 10");
  EXPECT_EQ(refusal({"--count"}), "--count lacks its value");
  EXPECT_EQ(refusal({"--count", "2", "--count", "3"}), "--count is given 2 times; give it once");
  EXPECT_EQ(refusal({"--loud", "--loud"}), "--loud is given 2 times; give it once");
  EXPECT_EQ(refusal({"--loud=7"}), "--loud 7: it must be true or false");
  EXPECT_EQ(refusal({"--share", "1"}), "--share 1: it must be a number from 0 to below 1");
  EXPECT_EQ(refusal({"--share", "nan"}), "--share nan: it must be a number from 0 to below 1");
  EXPECT_EQ(refusal({"--way", "odd"}), "--way odd: choose from slow, quick");
  EXPECT_THAT(refusal({"--bytes", "many"}), testing::StartsWith("--bytes many: "));
  EXPECT_THAT(refusal({"--cuont", "2"}), HasSubstr("--cuont; the nearest is --count"));
  EXPECT_THAT(refusal({"2"}), HasSubstr("'2'"));
  EXPECT_THAT(refusal({"--name", "\xff"}), HasSubstr("UTF-8"));
}

TEST(OptionSet, AWrongFileIsRefusedByItsNameLineAndKey) {
  EXPECT_THAT(refusal({}, "count = 2\ncuont = 3\n"), HasSubstr("run.toml, line 2: there is no setting cuont"));
  EXPECT_THAT(refusal({}, "count = 2\ncuont = 3\n"), HasSubstr("the nearest is count"));
  EXPECT_THAT(refusal({}, "\ncount = \"2\"\n"),
              HasSubstr("run.toml, line 2: count is a text; it must be a whole number"));
  EXPECT_THAT(refusal({}, "count = 2.0\n"), HasSubstr("line 1: count is a number; it must be a whole number"));
  EXPECT_THAT(refusal({}, "count = 11\n"), HasSubstr("line 1: count = 11: it must be a whole number from 1 to 10"));
  EXPECT_THAT(refusal({}, "share = inf\n"), HasSubstr("line 1: share = inf: "));
  EXPECT_THAT(refusal({}, "loud = 1\n"), HasSubstr("line 1: loud is a whole number; it must be true or false"));
  EXPECT_THAT(refusal({}, "name = 1\n"), HasSubstr("line 1: name is a whole number; it must be a text"));
  EXPECT_THAT(refusal({}, "name = [\"a\"]\n"), HasSubstr("line 1: name is a list"));
  EXPECT_THAT(refusal({}, "[count]\nx = 1\n"), HasSubstr("line 1: count is a table"));
  EXPECT_THAT(refusal({}, "once = true\n"), HasSubstr("line 1: once belongs to one call"));
  EXPECT_THAT(refusal({}, "config = \"other.toml\"\n"), HasSubstr("line 1: config belongs to one call"));
  EXPECT_THAT(refusal({"--count", "3"}, "count = 11\n"), HasSubstr("line 1")) << "also where a flag would win";
}

TEST(OptionSet, WhatWouldBeIgnoredIsRefused) {
  EXPECT_EQ(refusal({"--way", "quick", "--patience", "7"}),
            "--patience 7: it is for --way slow, and this run's is quick");
  EXPECT_THAT(refusal({"--way", "quick"}, "patience = 8\n"), HasSubstr("line 1: patience = 8: it is for --way slow"));
  Program program;
  EXPECT_FALSE(program.parse({"--way", "quick", "--config", program.config("patience = 7\n")}))
      << "a file that repeats a default loses nothing";
}

TEST(OptionSet, SettingsAreWhatHasAValueAndAMeaning) {
  Program program;
  program.parse({"--way", "quick", "--folder", "x"});
  std::vector<std::string> keys;
  std::vector<std::string> changing;
  for (const Setting& setting : program.set.settings()) {
    keys.push_back(setting.key);
    if (setting.changes_result) changing.push_back(setting.key);
  }
  EXPECT_THAT(keys, testing::ElementsAre("count", "seed", "share", "loud", "name", "folder", "way"));
  EXPECT_THAT(changing, testing::ElementsAre("count", "seed", "share", "loud"));
}

TEST(OptionSet, WhatIsPrintedIsReadBackToTheSameValues) {
  const std::vector<std::string> pieces = {"\"", "'",        "\\", "#", "\n", "\t",  "=",
                                           "a",  "\xc3\xa4", " ",  "[", "--", "\x7f"};
  std::mt19937_64 random(3);
  const auto text = [&] {
    std::string made;
    for (std::size_t k = random() % 6; k > 0; --k) made += pieces[random() % pieces.size()];
    return made;
  };
  for (int i = 0; i < 300; ++i) {
    Program program;
    program.count = static_cast<std::uint32_t>(1 + random() % 10);
    program.seed = random() >> (random() % 64);
    program.share = static_cast<double>(random() >> 11) * 0x1p-53 * (random() % 2 == 0 ? 1 : 1e-12);
    program.loud = random() % 2 == 0;
    program.name = text();
    program.folder = text();
    program.bytes = random() >> (11 + random() % 53);  // exact in a double, which parse_size() computes in
    program.way = random() % 2 == 0 ? Way::kSlow : Way::kQuick;
    if (program.way == Way::kSlow) program.patience = static_cast<std::uint32_t>(random());
    if (program.name.empty()) program.name = "x";

    Program read;
    const std::string toml = to_toml(program.set.settings());
    ASSERT_FALSE(read.parse({"--config", read.config(toml)})) << toml;
    EXPECT_EQ(read.count, program.count);
    EXPECT_EQ(read.seed, program.seed);
    EXPECT_EQ(read.share, program.share);
    EXPECT_EQ(read.loud, program.loud);
    EXPECT_EQ(read.name, program.name);
    EXPECT_EQ(read.folder, program.folder);
    EXPECT_EQ(read.bytes, program.bytes);
    EXPECT_EQ(read.way, program.way);
    EXPECT_EQ(read.patience, program.patience);
    EXPECT_EQ(to_toml(read.set.settings()), toml);
  }
}

TEST(OptionSet, HelpHasEveryOptionWithItsDefaultUnderItsHeading) {
  Program program;
  const std::string help = program.parse({"--help"}).value();
  for (const char* word : {"Figures:", "Places:", "--count N=3", "--share X=0.5", "--way CHOICE=slow", "--print-config",
                           "It does.", "The end."}) {
    EXPECT_THAT(help, HasSubstr(word));
  }
  Program again;
  EXPECT_EQ(again.parse({"--version"}).value(), "program 1.2\n");
}

}  // namespace
}  // namespace shoal
