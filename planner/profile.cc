#include "planner/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <map>
#include <string_view>

#include "planner/run_description.h"
#include "store/error.h"
#include "trainer/toml_file.h"

namespace shoal {
namespace {

// The profile's fields by key, for reading and writing alike.
template <typename Profile, typename Text, typename Number>
void visit(Profile& profile, const Text& text, const Number& number) {
  text("model", profile.model);
  text("optimizer", profile.optimizer);
  text("device", profile.device);
  number("batch", profile.batch);
  number("public-record-bytes", profile.public_record_bytes);
  number("private-record-bytes", profile.private_record_bytes);
  number("threads", profile.threads);
  number("intra-op", profile.intra_op);
  number("step-seconds", profile.step_seconds);
  number("node-seconds", profile.node_seconds);
  number("mix-bytes-per-second", profile.mix_bytes_per_second);
  number("read-bytes-per-second", profile.read_bytes_per_second);
  number("write-bytes-per-second", profile.write_bytes_per_second);
  number("disk-bytes-per-second", profile.disk_bytes_per_second);
  number("store-cpu-seconds-per-byte", profile.store_cpu_seconds_per_byte);
  number("mapped-bytes-per-second", profile.mapped_bytes_per_second);
  number("get-bytes-per-second", profile.get_bytes_per_second);
  number("ranks-slowdown", profile.ranks_slowdown);
  number("meeting-seconds", profile.meeting_seconds);
  number("request-cpu-seconds", profile.request_cpu_seconds);
}

// What is too short to be measured.
bool may_be_zero(std::string_view key) {
  return key == "node-seconds" || key == "store-cpu-seconds-per-byte" || key == "meeting-seconds";
}

}  // namespace

void Profile::write(const std::filesystem::path& file) const {
  std::ofstream out(file);
  out << "# Written by shoal-plan calibrate; read by shoal-plan.\n";
  visit(
      *this, [&](const char* key, const std::string& value) { out << fmt::format("{} = {}\n", key, toml_text(value)); },
      [&](const char* key, auto value) { out << fmt::format("{} = {}\n", key, value); });
  out.flush();
  if (!out) throw Error(fmt::format("{}: the profile could not be written", file.string()));
}

Profile Profile::read(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) {
    throw Error(
        fmt::format("--profile {}: there is no such file; 'shoal-plan calibrate --dir DIR' makes one", file.string()),
        ExitCode::kUsage);
  }
  std::map<std::string, TomlEntry> entries;
  for (TomlEntry& entry : read_toml(file)) entries.emplace(entry.key, std::move(entry));
  Profile profile;
  using Type = TomlEntry::Type;
  const auto value_of = [&](const char* key, const char* expected, std::initializer_list<Type> types) {
    const auto found = entries.find(key);
    if (found == entries.end()) {
      throw Error(fmt::format("--profile {}: it has no '{}', so it is no profile of this version; calibrate again",
                              file.string(), key),
                  ExitCode::kUsage);
    }
    const TomlEntry& entry = found->second;
    if (std::ranges::find(types, entry.type) == types.end()) {
      throw Error(fmt::format("--profile {}, line {}: {} is {}; it must be {}", file.string(), entry.line, key,
                              entry.type_name, expected),
                  ExitCode::kUsage);
    }
    return entry;
  };
  visit(
      profile,
      [&](const char* key, std::string& value) { value = value_of(key, "a text", {Type::kText}).texts.front(); },
      [&](const char* key, auto& value) {
        const TomlEntry entry = value_of(key, "a number", {Type::kWhole, Type::kReal});
        const std::string& text = entry.texts.front();
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool in_range = may_be_zero(key) ? value >= 0 : value > 0;
        const bool finite = std::isfinite(static_cast<double>(value));
        if (error != std::errc() || end != text.data() + text.size() || !in_range || !finite) {
          throw Error(fmt::format("--profile {}, line {}: {} cannot be {}", file.string(), entry.line, key, text),
                      ExitCode::kUsage);
        }
      });
  return profile;
}

std::string Profile::difference(const RunDescription& run) const {
  const auto differs = [](const char* what, const auto& mine, const auto& theirs) {
    return fmt::format("it is of {} {}, and this run has {}", what, mine, theirs);
  };
  if (model != run.model) return differs("model", model, run.model);
  if (optimizer != run.optimizer) return differs("optimizer", optimizer, run.optimizer);
  if (device != run.device) return differs("device", device, run.device);
  if (batch != run.batch) return differs("batch", batch, run.batch);
  if (intra_op != run.intra_op) return differs("intra-op", intra_op, run.intra_op);
  const std::uint64_t public_bytes = run.store.layout.record_bytes(Part::kPublic);
  if (public_record_bytes != public_bytes) return differs("public records of", public_record_bytes, public_bytes);
  return "";
}

FoundProfile find_profile(const std::filesystem::path& file, Asked asked, const RunDescription& run) {
  if (asked == Asked::kNo && !std::filesystem::exists(file)) return {};
  const Profile profile = Profile::read(file);
  const std::string difference = profile.difference(run);
  if (difference.empty()) return {profile, ""};
  if (asked == Asked::kYes) {
    throw Error(fmt::format("--profile {}: {}; 'shoal-plan calibrate' with this run's flags makes one for it",
                            file.string(), difference),
                ExitCode::kUsage);
  }
  return {std::nullopt, fmt::format("{} is not used: {}", file.string(), difference)};
}

}  // namespace shoal
