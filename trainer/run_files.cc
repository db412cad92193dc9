#include "trainer/run_files.h"

#include <fmt/format.h>

#include <iterator>

#include "store/error.h"

namespace shoal {
namespace fs = std::filesystem;

void RunFiles::check(const fs::path& folder, Start start) {
  std::error_code error;
  const bool there = fs::exists(folder / "config.toml", error);
  if (start == Start::kNew && there) {
    throw Error(fmt::format("{} holds a run already; choose another --out, go on with it (--resume), or delete it "
                            "(--overwrite)",
                            folder.string()),
                ExitCode::kUsage);
  }
  if (start == Start::kResume && !there) {
    throw Error(fmt::format("--resume: there is no run in {}", folder.string()), ExitCode::kUsage);
  }
}

std::string RunFiles::read_config(const fs::path& folder) {
  std::ifstream file(folder / "config.toml", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

RunFiles::RunFiles(fs::path folder, Start start) : folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw Error(fmt::format("--out {}: {}", folder_.string(), error.message()));
  metrics_.open(folder_ / "metrics.jsonl", start == Start::kResume ? std::ios::app : std::ios::trunc);
  if (!metrics_) throw Error(fmt::format("--out {}: metrics.jsonl cannot be written there", folder_.string()));
}

nlohmann::json RunFiles::keep_metrics_before(std::uint64_t round) {
  std::ifstream in(folder_ / "metrics.jsonl");
  std::string kept;
  nlohmann::json last;
  for (std::string line; std::getline(in, line);) {
    // The last line of a killed run may be cut off.
    nlohmann::json parsed = nlohmann::json::parse(line, nullptr, false);
    if (!parsed.is_object() || parsed.value("round", round) >= round) continue;
    kept += line + "\n";
    last = std::move(parsed);
  }
  write("metrics.jsonl", kept);
  metrics_.close();
  metrics_.open(folder_ / "metrics.jsonl", std::ios::app);
  return last;
}

void RunFiles::add_metrics(const nlohmann::json& line) {
  metrics_ << line.dump() << '\n';
  if (!metrics_.flush()) {
    throw Error(fmt::format("{}: cannot be written; is the disk full?", (folder_ / "metrics.jsonl").string()));
  }
}

void RunFiles::write(std::string_view name, std::string_view contents) const {
  const fs::path file = folder_ / name;
  const fs::path temporary = folder_ / (std::string(name) + ".new");
  {
    std::ofstream out(temporary, std::ios::binary);
    out << contents;
    if (!out.flush()) throw Error(fmt::format("{}: cannot be written; is the disk full?", file.string()));
  }
  std::error_code error;
  fs::rename(temporary, file, error);
  if (error) throw Error(fmt::format("{}: {}", file.string(), error.message()));
}

}  // namespace shoal
