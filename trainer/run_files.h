// The results folder: stores.json, config.toml, metrics.jsonl, nodes.csv, summary.json, report.html. Where there is a
// stores.json there is a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "trainer/train_options.h"

namespace shoal {

class RunFiles {
 public:
  // Changes nothing. Refuses a folder that cannot be, one with a run in it that is neither overwritten nor resumed, and
  // one with files of a run's names that no run has left there, unless they are overwritten.
  static void check(const TrainOptions& options);

  explicit RunFiles(std::filesystem::path folder);  // makes the folder

  // Deletes the results: every file of a run's names, stores.json excepted.
  void remove_results();
  void remove_everything();  // stores.json too

  void begin_metrics();
  // Instead, for a resumed run: begins with the lines of rounds before `round` that are in `folder`, which may be
  // another one. Returns the last of them; null when there is none.
  nlohmann::json continue_metrics(const std::filesystem::path& from, std::uint64_t round);
  void add_metrics(const nlohmann::json& line);
  void sync_metrics() const;  // durable when it returns

  // Whole, or not at all; durable when it returns.
  void write(std::string_view name, std::string_view contents) const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  void open_metrics(std::ios::openmode mode);

  std::filesystem::path folder_;
  std::ofstream metrics_;
};

}  // namespace shoal
