// A directory of its own for a test, gone when the test is.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "store/error.h"

namespace shoal {

// Where a file system in memory is: for tests that would spend their time in fsync, and do not test it.
inline std::filesystem::path fast_directory() {
  const std::filesystem::path memory = "/dev/shm";
  return std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
}

class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "shoal-test-XXXXXX").string();
    SHOAL_CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace shoal
