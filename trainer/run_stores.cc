#include "trainer/run_stores.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "store/error.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

fs::path full(const fs::path& path) { return fs::absolute(path).lexically_normal(); }

std::string to_text(const fs::path& path, const fs::path& out) {
  if (path.empty() || out.empty()) return path.string();
  const fs::path below = full(path).lexically_relative(full(out));
  return below.empty() || *below.begin() == ".." ? full(path).string() : below.string();
}

fs::path to_path(const std::string& text, const fs::path& out) {
  if (text.empty() || out.empty()) return text;
  return full(out / text);  // an absolute one stays as it is
}

json to_json(const std::vector<StorePlace>& places, const fs::path& out) {
  json list = json::array();
  for (const StorePlace& place : places) {
    list.push_back({{"store", to_text(place.store, out)},
                    {"cold", to_text(place.cold, out)},
                    {"id", fmt::format("{:016x}", place.id)}});
  }
  return list;
}

std::vector<StorePlace> to_places(const json& list, const fs::path& out) {
  std::vector<StorePlace> places;
  for (const json& each : list) {
    places.push_back({to_path(each.at("store").get<std::string>(), out),
                      to_path(each.at("cold").get<std::string>(), out),
                      std::stoull(each.at("id").get<std::string>(), nullptr, 16)});
  }
  return places;
}

}  // namespace

std::string RunStores::text(const fs::path& out) const {
  return json{{"stores", to_json(current, out)}, {"obsolete", to_json(obsolete, out)}}.dump(2) + "\n";
}

RunStores RunStores::parse(std::string_view text, const fs::path& out) {
  const json file = json::parse(text);
  return {to_places(file.at("stores"), out), to_places(file.at("obsolete"), out)};
}

std::optional<RunStores> RunStores::read(const fs::path& out) {
  const fs::path path = out / kFile;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  try {
    return parse(std::string(std::istreambuf_iterator<char>(file), {}), out);
  } catch (const std::exception& error) {  // of the JSON library, or a number's
    throw Error(fmt::format("{} does not say which stores are the run's ({}); it is damaged, or not this version's",
                            path.string(), error.what()));
  }
}

bool RunStores::has(std::uint64_t id) const {
  return std::any_of(current.begin(), current.end(), [id](const StorePlace& place) { return place.id == id; });
}

bool RunStores::is_obsolete(const StorePlace& place) const {
  return std::any_of(obsolete.begin(), obsolete.end(),
                     [&](const StorePlace& each) { return each.store == place.store && each.id == place.id; });
}

}  // namespace shoal
