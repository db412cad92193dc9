#include "trainer/store_place.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "store/error.h"

namespace shoal {
namespace {

using nlohmann::json;

std::filesystem::path fill_in(const std::filesystem::path& pattern, const Communicator& ranks) {
  std::string text = pattern.string();
  const std::pair<std::string, std::string> words[] = {{"{rank}", std::to_string(ranks.rank())},
                                                       {"{local_rank}", std::to_string(ranks.local_rank())},
                                                       {"{host}", ranks.host()}};
  for (const auto& [word, value] : words) {
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + value.size())) {
      text.replace(at, word.size(), value);
    }
  }
  if (const std::size_t open = text.find('{'); open != std::string::npos) {
    throw Error(fmt::format("{}: only {{rank}}, {{local_rank}} and {{host}} can stand in braces", pattern.string()),
                ExitCode::kUsage);
  }
  std::filesystem::path path = std::filesystem::absolute(text);
  return ranks.alone() ? path : path / fmt::format("rank-{}-of-{}", ranks.rank(), ranks.size());
}

json to_json(const StorePlace& place) { return {{"store", place.store.string()}, {"cold", place.cold.string()}}; }

StorePlace from_json(const json& value) {
  return {value.at("store").get<std::string>(), value.at("cold").get<std::string>()};
}

}  // namespace

StorePlace store_place(const TrainOptions& options, const Communicator& ranks) {
  StorePlace place;
  place.store = fill_in(options.store, ranks);
  if (!options.cold.empty()) place.cold = fill_in(options.cold, ranks);
  return place;
}

std::string stores_text(const std::vector<StorePlace>& places) {
  json list = json::array();
  for (const StorePlace& place : places) list.push_back(to_json(place));
  return list.dump(2) + "\n";
}

std::vector<StorePlace> parse_stores(const std::string& text) {
  std::vector<StorePlace> places;
  for (const json& each : json::parse(text)) places.push_back(from_json(each));
  return places;
}

std::vector<StorePlace> read_stores(const std::filesystem::path& out) {
  std::ifstream file(out / kStoresFile);
  try {
    std::vector<StorePlace> places = parse_stores({std::istreambuf_iterator<char>(file), {}});
    if (!places.empty()) return places;
  } catch (const json::exception&) {
  }
  throw Error(fmt::format("--resume: {} does not say where the run's stores are; start the run again with --overwrite",
                          (out / kStoresFile).string()));
}

std::vector<StorePlace> all_places(const StorePlace& own, Communicator& ranks) {
  const std::string text = to_json(own).dump();
  std::vector<StorePlace> places;
  for (const auto& each : ranks.gather_everywhere(std::as_bytes(std::span(text)))) {
    places.push_back(from_json(json::parse(reinterpret_cast<const char*>(each.data()),
                                           reinterpret_cast<const char*>(each.data()) + each.size())));
  }
  return places;
}

}  // namespace shoal
