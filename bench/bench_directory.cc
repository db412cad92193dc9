#include "bench/bench_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "store/error.h"
#include "store/size_text.h"

namespace shoal::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarker = ".shoal-store-bench";

fs::path make_temporary() {
  std::string name = (fs::current_path() / "shoal-store-bench.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw_errno("making a temporary folder in the current one (give another place with --dir)", errno);
  }
  return name;
}

}  // namespace

BenchDirectory::BenchDirectory(const std::optional<fs::path>& requested) {
  std::error_code error;
  if (!requested) {
    path_ = make_temporary();
    made_here_ = true;
  } else {
    path_ = fs::absolute(*requested);
    made_here_ = fs::create_directories(path_, error);
    if (error) throw Error(fmt::format("--dir {}: {}", path_.string(), error.message()), ExitCode::kUsage);
    if (!fs::is_empty(path_) && !fs::exists(path_ / kMarker)) {
      throw Error(
          fmt::format("--dir {}: the folder is not empty and not a benchmark's; nothing was touched. Give a new "
                      "or empty one",
                      path_.string()),
          ExitCode::kUsage);
    }
  }
  claim();
}

void BenchDirectory::claim() {
  const fs::path marker = path_ / kMarker;
  marker_ = ::open(marker.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (marker_ < 0) throw_errno(fmt::format("creating {}", marker.string()), errno);
  if (::flock(marker_, LOCK_EX | LOCK_NB) != 0) {
    ::close(marker_);
    throw Error(fmt::format("--dir {}: another shoal-store-bench is using it", path_.string()), ExitCode::kUsage);
  }
  for (const fs::directory_entry& left : fs::directory_iterator(path_)) {
    if (left.path().filename() != kMarker) fs::remove_all(left.path());
  }
}

BenchDirectory::~BenchDirectory() {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, ignored)) {
    fs::remove_all(entry.path(), ignored);
  }
  ::close(marker_);
  if (made_here_) fs::remove(path_, ignored);
}

fs::path BenchDirectory::make_empty(std::string_view name) const {
  remove(name);
  fs::create_directory(path_ / name);
  return path_ / name;
}

void BenchDirectory::remove(std::string_view name) const { fs::remove_all(path_ / name); }

void BenchDirectory::require_space(std::uint64_t bytes) const {
  struct statvfs status = {};
  if (::statvfs(path_.c_str(), &status) != 0) throw_errno(fmt::format("statvfs of {}", path_.string()), errno);
  const std::uint64_t available = status.f_bavail * status.f_frsize;
  if (available < bytes) {
    throw Error(
        fmt::format("{} has {} free and the benchmark may need {}: use fewer nodes, a smaller layout or another "
                    "--dir. Nothing was written",
                    path_.string(), size_text(available), size_text(bytes)));
  }
}

}  // namespace shoal::bench
