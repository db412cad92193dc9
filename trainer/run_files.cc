#include "trainer/run_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <vector>

#include "store/error.h"
#include "store/manifest.h"
#include "trainer/run_stores.h"

namespace shoal {
namespace fs = std::filesystem;
namespace {

constexpr const char* kMetrics = "metrics.jsonl";

bool is_result(std::string_view name) {
  if (name.ends_with(".new")) name.remove_suffix(4);  // what an interrupted write() leaves
  for (const char* const whole :
       {"config.toml", kMetrics, "nodes.csv", "node_names.csv", "summary.json", "report.html", "trace.json"}) {
    if (name == whole) return true;
  }
  return false;
}

std::vector<fs::path> results_in(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::is_directory(folder)) return files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_directory() && is_result(entry.path().filename().string())) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void require_writable(const fs::path& folder) {
  fs::path there = fs::absolute(folder);
  while (!fs::exists(there) && there.has_parent_path() && there != there.parent_path()) there = there.parent_path();
  const int error = !fs::is_directory(there) ? ENOTDIR : ::access(there.c_str(), W_OK | X_OK) != 0 ? errno : 0;
  if (error == 0) return;
  throw Error(fmt::format("--out {}: {}: {}", folder.string(), there.string(), errno_text(error)));
}

}  // namespace

void RunFiles::check(const TrainOptions& options) {
  const fs::path& folder = options.out;
  require_writable(folder);
  if (options.overwrite) return;
  const bool has_run = fs::exists(folder / RunStores::kFile);
  if (has_run && !options.resume) {
    throw Error(fmt::format("{} holds a run already; choose another --out, go on with it (--resume), or delete it "
                            "(--overwrite)",
                            folder.string()),
                ExitCode::kUsage);
  }
  const std::vector<fs::path> files = results_in(folder);
  if (has_run || files.empty()) return;
  std::vector<std::string> names;
  for (const fs::path& file : files) names.push_back(file.filename().string());
  throw Error(fmt::format("--out {}: there is no run in it, and files that a run would replace: {}. Choose another "
                          "folder, or have them deleted (--overwrite)",
                          folder.string(), fmt::join(names, ", ")),
              ExitCode::kUsage);
}

RunFiles::RunFiles(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw Error(fmt::format("--out {}: {}", folder_.string(), error.message()));
}

void RunFiles::remove_results() {
  metrics_.close();
  for (const fs::path& file : results_in(folder_)) fs::remove(file);
}

void RunFiles::remove_everything() {
  remove_results();
  fs::remove(folder_ / RunStores::kFile);
}

void RunFiles::open_metrics(std::ios::openmode mode) {
  metrics_.close();
  metrics_.open(folder_ / kMetrics, mode);
  if (!metrics_) throw Error(fmt::format("--out {}: {} cannot be written there", folder_.string(), kMetrics));
}

void RunFiles::begin_metrics() { open_metrics(std::ios::trunc); }

nlohmann::json RunFiles::continue_metrics(const fs::path& from, std::uint64_t round) {
  std::ifstream in(from / kMetrics);
  std::string kept;
  nlohmann::json last;
  for (std::string line; std::getline(in, line);) {
    // The last line of a killed run may be cut off.
    nlohmann::json parsed = nlohmann::json::parse(line, nullptr, false);
    if (!parsed.is_object() || parsed.value("round", round) >= round) continue;
    kept += line + "\n";
    last = std::move(parsed);
  }
  write(kMetrics, kept);
  open_metrics(std::ios::app);
  return last;
}

void RunFiles::add_metrics(const nlohmann::json& line) {
  metrics_ << line.dump() << '\n';
  if (!metrics_.flush()) {
    throw Error(fmt::format("{}: cannot be written; is the disk full?", (folder_ / kMetrics).string()));
  }
}

void RunFiles::sync_metrics() const {
  if (metrics_.is_open()) sync_file(folder_ / kMetrics);
}

void RunFiles::write(std::string_view name, std::string_view contents) const {
  write_file_durably(folder_ / name, std::string(contents));
}

}  // namespace shoal
