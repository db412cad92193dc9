#include "trainer/checkpoint_note.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "store/error.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;
using Values = std::map<std::string, std::string>;

fs::path full(const fs::path& path) { return fs::absolute(path).lexically_normal(); }

std::string value_of(const Values& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? "not there" : found->second;
}

// Keys whose values differ, of either side.
std::vector<std::string> changed_keys(const Values& was, const Values& is) {
  std::vector<std::string> keys;
  Values all = was;
  all.insert(is.begin(), is.end());
  for (const auto& [key, value] : all) {
    if (value_of(was, key) != value_of(is, key)) keys.push_back(key);
  }
  return keys;
}

}  // namespace

void CheckpointNote::take_settings(const TrainOptions& options) {
  for (const Setting& setting : shoal::settings(options)) {
    if (setting.changes_result) settings[setting.key] = setting.value;
  }
}

void CheckpointNote::set_results_folder(const fs::path& folder, const fs::path& store) {
  const fs::path below = full(store).lexically_relative(full(folder));
  const bool inside = !below.empty() && *below.begin() != "..";
  out = inside ? full(folder).lexically_relative(full(store)) : full(folder);
}

fs::path CheckpointNote::results_folder(const fs::path& store) const {
  const fs::path folder = full(store / out);
  return folder.has_filename() ? folder : folder.parent_path();
}

std::string CheckpointNote::text() const {
  return nlohmann::json{{"rounds_done", rounds_done},
                        {"settings", settings},
                        {"contents", contents},
                        {"owners", owners},
                        {"out", out.string()}}
      .dump();
}

CheckpointNote CheckpointNote::parse(std::string_view text) {
  try {
    const auto json = nlohmann::json::parse(text);
    return {json.at("rounds_done").get<std::uint64_t>(), json.at("settings").get<Values>(),
            json.at("contents").get<Values>(), json.at("owners").get<std::string>(), json.at("out").get<std::string>()};
  } catch (const nlohmann::json::exception&) {
    throw Error("the store's last checkpoint was not made by this version of shoal-train; choose another --store");
  }
}

void CheckpointNote::require_same(const CheckpointNote& now) const {
  std::string changed;
  for (const std::string& key : changed_keys(settings, now.settings)) {
    changed += fmt::format("{}--{} (was {}, is {})", changed.empty() ? "" : ", ", key, value_of(settings, key),
                           value_of(now.settings, key));
  }
  if (!changed.empty()) {
    throw Error(fmt::format("--resume: the run was started with other settings: {}. Only --rounds (not with a cosine), "
                            "--ram, --threads, --out, "
                            "the store's and the reporting flags may change",
                            changed),
                ExitCode::kUsage);
  }
  for (const std::string& key : changed_keys(contents, now.contents)) {
    changed += fmt::format("{}--{} {}", changed.empty() ? "" : ", ", key, value_of(settings, key));
  }
  if (!changed.empty()) {
    throw Error(fmt::format("--resume: not what the run was started with, though it has the same name: {}. Bring back "
                            "what was there, or start a new run",
                            changed),
                ExitCode::kUsage);
  }
  if (owners != now.owners) {
    throw Error(
        "--resume: this program would give the nodes to other ranks than the one that made the checkpoint, and would "
        "take them for each other; go on with that program");
  }
}

}  // namespace shoal
