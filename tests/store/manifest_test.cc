#include "store/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "store/commit_mark.h"
#include "store/error.h"
#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

StateLayout some_layout() {
  return StateLayout(
      {{"weights", DType::kFloat32, {10, 3}, Part::kPublic}, {"steps", DType::kInt64, {}, Part::kPrivate}});
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void set_contents(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

class ManifestTest : public testing::Test {
 protected:
  ManifestTest() { Manifest{0xfedcba9876543210, 12345, some_layout()}.write(directory_.path()); }

  std::filesystem::path file() const { return Manifest::path(directory_.path()); }
  void read() const { Manifest::read(directory_.path()); }

  TemporaryDirectory directory_{fast_directory()};
};

TEST_F(ManifestTest, ComesBackAsItWasWritten) {
  ASSERT_TRUE(Manifest::exists(directory_.path()));
  const Manifest manifest = Manifest::read(directory_.path());
  EXPECT_EQ(manifest.store_id, 0xfedcba9876543210);
  EXPECT_EQ(manifest.nodes, 12345u);
  EXPECT_EQ(manifest.layout.difference(some_layout()), std::nullopt);
}

TEST_F(ManifestTest, IsRefusedWithAnyBitFlipped) {
  const std::string text = contents(file());
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    set_contents(file(), damaged);
    ASSERT_THROW(read(), Error) << "bit " << bit % 8 << " of byte " << bit / 8 << " ('" << text[bit / 8] << "')";
  }
  set_contents(file(), text);
  EXPECT_NO_THROW(read());
}

TEST_F(ManifestTest, IsRefusedCutShortAtAnyByteOrWithMoreBehindIt) {
  const std::string text = contents(file());
  for (std::size_t length = 0; length < text.size(); ++length) {
    set_contents(file(), text.substr(0, length));
    ASSERT_THROW(read(), Error) << length << " bytes";
  }
  set_contents(file(), text + " ");
  EXPECT_THROW(read(), Error);
}

TEST_F(ManifestTest, IsSaidToBeDamagedByNameWithWhatToDo) {
  set_contents(file(), replaced(contents(file()), "12345", "12344"));
  EXPECT_THAT([this] { read(); },
              ThrowsMessage<Error>(AllOf(HasSubstr(file().string()), HasSubstr("damaged"), HasSubstr("checksum"),
                                         HasSubstr("restore it from a copy"))));
}

TEST_F(ManifestTest, OfAnotherFormatVersionIsRefusedForThatReason) {
  // As a later program would write it: whole, with the right checksum over the compact form of the body.
  std::string text = replaced(contents(file()), R"("format": 2)", R"("format": 3)");
  const std::size_t begin = text.find('{', 1);
  std::string body;
  bool quoted = false;
  int depth = 0;
  for (std::size_t at = begin; at == begin || depth > 0; ++at) {
    quoted ^= text[at] == '"';
    if (!quoted && (text[at] == ' ' || text[at] == '\n')) continue;
    if (text[at] == '{') ++depth;
    if (text[at] == '}') --depth;
    body += text[at];
  }
  char checksum[17];
  std::snprintf(checksum, sizeof(checksum), "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(body.data(), body.size())));
  const std::size_t stored = text.find(R"("checksum": ")") + 13;
  set_contents(file(), text.replace(stored, 16, checksum));
  EXPECT_THAT([this] { read(); },
              ThrowsMessage<Error>(AllOf(HasSubstr("format version 3"), HasSubstr("reads version 2"),
                                         HasSubstr("the program that made it"), Not(HasSubstr("damaged")))));
}

TEST_F(ManifestTest, OfAnotherRunIsRefusedWithTheDifference) {
  const Manifest manifest = Manifest::read(directory_.path());
  const StateLayout other(
      {{"weights", DType::kFloat32, {10, 4}, Part::kPublic}, {"steps", DType::kInt64, {}, Part::kPrivate}});
  EXPECT_NO_THROW(manifest.require(some_layout(), 12345, directory_.path()));
  EXPECT_THAT([&] { manifest.require(some_layout(), 12346, directory_.path()); },
              ThrowsMessage<Error>(AllOf(HasSubstr(directory_.path().string()),
                                         HasSubstr("12345 nodes, this run 12346"), HasSubstr("Nothing was changed"))));
  EXPECT_THAT([&] { manifest.require(other, 12345, directory_.path()); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("layout differs"), HasSubstr("'weights' f32[10, 3]"), HasSubstr("[10, 4]"))));
}

TEST_F(ManifestTest, ThatIsMissingMeansThatThereIsNoStore) {
  std::filesystem::remove(file());
  EXPECT_FALSE(Manifest::exists(directory_.path()));
  EXPECT_THAT([this] { read(); },
              ThrowsMessage<Error>(AllOf(HasSubstr("there is no store in"), HasSubstr(file().string()))));
}

TEST(WriteFileDurably, ReplacesAFileAsAWholeAndLeavesNothingBeside) {
  const TemporaryDirectory directory(fast_directory());
  const std::filesystem::path path = directory.path() / "file";
  write_file_durably(path, "a long first text\n");
  write_file_durably(path, "short");
  EXPECT_EQ(contents(path), "short");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
}

TEST(WriteFileDurably, NamesTheFileItCannotWrite) {
  EXPECT_THAT([] { write_file_durably("/nonexistent/file", "text"); },
              ThrowsMessage<Error>(HasSubstr("/nonexistent/file")));
}

TEST(CommitMark, ComesBackAndIsZeroBeforeTheFirst) {
  const TemporaryDirectory directory(fast_directory());
  EXPECT_EQ(read_commit_mark(directory.path()), 0u);
  for (const std::uint64_t commit : {std::uint64_t{1}, std::uint64_t{987}, ~std::uint64_t{0}}) {
    write_commit_mark(directory.path(), commit);
    EXPECT_EQ(read_commit_mark(directory.path()), commit);
  }
}

TEST(CommitMark, IsRefusedWithAnyBitFlippedOrCutShort) {
  const TemporaryDirectory directory(fast_directory());
  write_commit_mark(directory.path(), 1739);
  const std::filesystem::path path = std::filesystem::directory_iterator(directory.path())->path();
  const std::string text = contents(path);
  const auto expect_refusal = [&](const std::string& damaged) {
    set_contents(path, damaged);
    EXPECT_THAT([&] { read_commit_mark(directory.path()); },
                ThrowsMessage<Error>(AllOf(HasSubstr(path.string()), HasSubstr("damaged"))));
  };
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    expect_refusal(damaged);
  }
  for (std::size_t length = 0; length < text.size(); ++length) expect_refusal(text.substr(0, length));
}

TEST(CommitMark, ToleratesTheDatabaseOneCommitAheadAndNothingElse) {
  EXPECT_NO_THROW(require_commit("/store", 7, 7));
  EXPECT_NO_THROW(require_commit("/store", 8, 7)) << "a crash between the commit and its mark";
  EXPECT_THAT([] { require_commit("/store", 6, 7); },
              ThrowsMessage<Error>(AllOf(HasSubstr("/store"), HasSubstr("commit 6"), HasSubstr("says 7"))));
  EXPECT_THROW(require_commit("/store", 9, 7), Error);
}

}  // namespace
}  // namespace shoal
