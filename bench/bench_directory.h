// Where the engines put their files: a folder that is ours alone, empty before and gone afterwards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace shoal::bench {

class BenchDirectory {
 public:
  // None: a new temporary folder in the current one. Given: a folder that does not exist, is empty, or was left behind
  // by a benchmark that was killed; Error for any other, and for one that another benchmark is using.
  explicit BenchDirectory(const std::optional<std::filesystem::path>& requested);
  BenchDirectory(const BenchDirectory&) = delete;
  BenchDirectory& operator=(const BenchDirectory&) = delete;
  ~BenchDirectory();  // removes all that was made in it, and the folder if it was made here

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path make_empty(std::string_view name) const;  // a subfolder
  void remove(std::string_view name) const;

  // Throws Error, naming what is needed and what there is.
  void require_space(std::uint64_t bytes) const;

 private:
  void claim();

  std::filesystem::path path_;
  bool made_here_ = false;
  int marker_ = -1;  // locked
};

}  // namespace shoal::bench
