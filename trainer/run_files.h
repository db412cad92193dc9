// The results folder: config.toml, metrics.jsonl, nodes.csv, summary.json, report.html.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

namespace shoal {

class RunFiles {
 public:
  enum class Start { kNew, kOverwrite, kResume };
  // Changes nothing. A folder that holds a run already is refused unless that is overwritten or resumed.
  static void check(const std::filesystem::path& folder, Start start);
  static std::string read_config(const std::filesystem::path& folder);

  RunFiles(std::filesystem::path folder, Start start);

  // A resumed run keeps the lines of rounds before `round`. Returns the last of them; null when there is none.
  nlohmann::json keep_metrics_before(std::uint64_t round);
  void add_metrics(const nlohmann::json& line);
  void write(std::string_view name, std::string_view contents) const;  // whole, or not at all
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  std::ofstream metrics_;
};

}  // namespace shoal
