#include "trainer/checkpoint_note.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "store/error.h"

namespace shoal {

CheckpointNote CheckpointNote::of(std::uint64_t rounds_done, const TrainOptions& options) {
  CheckpointNote note;
  note.rounds_done = rounds_done;
  for (const Setting& setting : shoal::settings(options)) {
    if (setting.changes_result) note.settings[setting.key] = setting.value;
  }
  return note;
}

std::string CheckpointNote::text() const {
  return nlohmann::json{{"rounds_done", rounds_done}, {"settings", settings}}.dump();
}

CheckpointNote CheckpointNote::parse(std::string_view text) {
  try {
    const auto json = nlohmann::json::parse(text);
    return {json.at("rounds_done").get<std::uint64_t>(), json.at("settings").get<std::map<std::string, std::string>>()};
  } catch (const nlohmann::json::exception&) {
    throw Error("the store's last checkpoint was not made by shoal-train; choose another --store");
  }
}

CheckpointNote CheckpointNote::of_config(std::string_view toml, const TrainOptions& options) {
  CheckpointNote note = of(0, options);
  std::istringstream lines{std::string(toml)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t middle = line.find(" = ");
    if (middle == std::string::npos) continue;
    const auto found = note.settings.find(line.substr(0, middle));
    if (found != note.settings.end()) found->second = line.substr(middle + 3);
  }
  return note;
}

void CheckpointNote::require_same(const TrainOptions& options) const {
  std::string changed;
  const CheckpointNote now = of(rounds_done, options);
  const auto note_change = [&](const std::string& key, const std::string& was, const std::string& is) {
    changed += fmt::format("{}--{} (was {}, is {})", changed.empty() ? "" : ", ", key, was, is);
  };
  for (const auto& [key, value] : now.settings) {
    const auto found = settings.find(key);
    if (found == settings.end()) {
      note_change(key, "not there", value);
    } else if (found->second != value) {
      note_change(key, found->second, value);
    }
  }
  for (const auto& [key, value] : settings) {
    if (!now.settings.contains(key)) note_change(key, value, "not there");
  }
  if (changed.empty()) return;
  throw Error(fmt::format("--resume: the run was started with other settings: {}. Only --rounds (not with a cosine), "
                          "--ram, --threads, --out, "
                          "the store's and the reporting flags may change",
                          changed),
              ExitCode::kUsage);
}

}  // namespace shoal
