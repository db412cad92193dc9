#include "store/commit_mark.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

#include "store/error.h"
#include "store/manifest.h"

namespace shoal {
namespace {

// Twice the same line, so that no single flipped bit makes another mark of it.
std::string text_of(std::uint64_t commit) { return fmt::format("commit {0}\ncommit {0}\n", commit); }

}  // namespace

std::filesystem::path commit_mark_path(const std::filesystem::path& directory) { return directory / "COMMIT"; }

std::uint64_t read_commit_mark(const std::filesystem::path& directory) {
  const std::filesystem::path path = commit_mark_path(directory);
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return 0;
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  constexpr std::string_view kWord = "commit ";
  std::uint64_t commit = 0;
  if (text.size() > kWord.size()) std::from_chars(text.data() + kWord.size(), text.data() + text.size(), commit);
  if (text != text_of(commit)) {
    throw Error(
        fmt::format("{} is damaged: it does not read 'commit NUMBER' twice; restore it from a copy", path.string()));
  }
  return commit;
}

void write_commit_mark(const std::filesystem::path& directory, std::uint64_t commit) {
  write_file_durably(commit_mark_path(directory), text_of(commit));
}

void require_commit(const std::filesystem::path& directory, std::uint64_t in_database, std::uint64_t mark) {
  if (in_database == mark || in_database == mark + 1) return;
  throw Error(
      fmt::format("the database in {} is at commit {}, but {} says {}: one of the two is damaged or from "
                  "another time; restore the directory from a copy",
                  directory.string(), in_database, commit_mark_path(directory).string(), mark));
}

}  // namespace shoal
