#include "trainer/toml_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "store/error.h"
#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Type = TomlEntry::Type;

class TomlFile : public testing::Test {
 protected:
  std::vector<TomlEntry> read(const std::string& text) const {
    std::ofstream(file_, std::ios::binary) << text;
    return read_toml(file_);
  }

  std::string refusal(const std::string& text) const {
    try {
      read(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
      return error.what();
    }
    return "";
  }

  TemporaryDirectory folder_;
  std::filesystem::path file_ = folder_.path() / "run.toml";
};

TEST_F(TomlFile, GivesEveryKindOfValueWithItsLine) {
  const auto entries = read(
      "# a comment\nz = 1_000 # and another\nname = \"a # in it\"\nlong = \"\"\"x\"\"\"\n'quoted key' = 'no \\ "
      "escape'\n"
      "share = 1e-05\nyes = true\nlist = [\"a\", 'b']\nday = 2024-02-29\nmixed = [1, 'b']\nempty = []\n[table]\n");
  const auto texts = [&](std::size_t i) { return entries.at(i).texts; };
  ASSERT_EQ(entries.size(), 11U);
  EXPECT_EQ(entries[0].key, "z");
  EXPECT_EQ(entries[0].line, 2U);
  EXPECT_EQ(entries[0].type, Type::kWhole);
  EXPECT_THAT(texts(0), ElementsAre("1000"));
  EXPECT_THAT(texts(1), ElementsAre("a # in it"));
  EXPECT_THAT(texts(2), ElementsAre("x"));
  EXPECT_EQ(entries[3].key, "quoted key");
  EXPECT_THAT(texts(3), ElementsAre("no \\ escape"));
  EXPECT_EQ(entries[4].type, Type::kReal);
  EXPECT_THAT(texts(4), ElementsAre("1e-05"));
  EXPECT_EQ(entries[5].type, Type::kBoolean);
  EXPECT_THAT(texts(6), ElementsAre("a", "b"));
  EXPECT_EQ(entries[7].type_name, "a date or time");
  EXPECT_EQ(entries[8].type, Type::kOther);
  EXPECT_EQ(entries[10].type, Type::kTable);
  EXPECT_EQ(entries[10].line, 12U);
}

TEST_F(TomlFile, WhatIsNoTomlIsRefusedWithFileAndLine) {
  for (const char* text : {"a = 1\n[[\n", "a = 1\nb = \n", "a = 1\nb\n", "a = 1\na = 2\n", "a = 1\nb = \"x\n",
                           "a = 1\nb = 'x\xff'\n", "a = 1\nb = 99999999999999999999\n"}) {
    EXPECT_THAT(refusal(text), HasSubstr("run.toml, line 2: ")) << text;
  }
}

TEST_F(TomlFile, ThatIsNotThereOrAFolderIsRefused) {
  EXPECT_THROW(read_toml(folder_.path() / "none.toml"), Error);
  EXPECT_THROW(read_toml(folder_.path()), Error);
}

TEST_F(TomlFile, AnyTextThatCanBeWrittenComesBack) {
  const std::vector<std::string> pieces = {
      "\"",   "'",    "\\", "#",  "\n",       "\r\n",  "\t", "=", "[",      "]",  "{",    "}",
      ",",    "\x7f", "\b", "a",  "\xc3\xa4", "\\u00", "$",  " ", "\"\"\"", "''", "\x1b", "\xf0\x9f\x90\x9f",
      "\x01", "/",    "%s", "\\n"};
  std::mt19937 random(7);
  for (int i = 0; i < 500; ++i) {
    std::string text;
    for (std::size_t k = random() % 8; k > 0; --k) text += pieces[random() % pieces.size()];
    ASSERT_TRUE(toml_can_hold(text)) << testing::PrintToString(text);
    EXPECT_THAT(toml_text(text), testing::Not(HasSubstr("\n"))) << "a setting is a line";
    const auto entries = read("before = 1\ntext = " + toml_text(text) + "\nafter = 2\n");
    ASSERT_EQ(entries.size(), 3U);
    EXPECT_THAT(entries[1].texts, ElementsAre(text));
  }
  EXPECT_FALSE(toml_can_hold("\xff"));
  EXPECT_FALSE(toml_can_hold("cut off: \xc3"));
}

}  // namespace
}  // namespace shoal
