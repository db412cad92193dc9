#include "trainer/store_place.h"

#include <fmt/format.h>

#include <random>
#include <span>
#include <string>

#include "store/error.h"
#include "trainer/run_stores.h"

namespace shoal {
namespace {

std::filesystem::path fill_in(const char* flag, const std::filesystem::path& pattern, const RankNumbers& rank) {
  std::string text = pattern.string();
  const std::pair<std::string, std::string> words[] = {
      {"{rank}", std::to_string(rank.rank)}, {"{local_rank}", std::to_string(rank.local_rank)}, {"{host}", rank.host}};
  for (const auto& [word, value] : words) {
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + value.size())) {
      text.replace(at, word.size(), value);
    }
  }
  if (const std::size_t open = text.find('{'); open != std::string::npos) {
    throw Error(
        fmt::format("{} {}: only {{rank}}, {{local_rank}} and {{host}} can stand in braces", flag, pattern.string()),
        ExitCode::kUsage);
  }
  std::filesystem::path path = std::filesystem::absolute(text).lexically_normal();
  return rank.size == 1 ? path : path / fmt::format("rank-{}-of-{}", rank.rank, rank.size);
}

}  // namespace

StoreOptions StorePlace::options() const {
  StoreOptions options;
  options.directory = store;
  options.cold_directory = cold;
  options.id = id;
  return options;
}

RankNumbers RankNumbers::of(const Communicator& ranks) {
  return {ranks.rank(), ranks.size(), ranks.local_rank(), ranks.host()};
}

StorePlace store_place(const TrainOptions& options, const RankNumbers& rank) {
  StorePlace place;
  place.store = fill_in("--store", options.store, rank);
  if (!options.cold.empty()) place.cold = fill_in("--cold", options.cold, rank);
  return place;
}

std::uint64_t new_store_id() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

std::vector<StorePlace> all_places(const StorePlace& own, Communicator& ranks) {
  const std::string text = RunStores{{own}, {}}.text({});
  std::vector<StorePlace> places;
  for (const auto& each : ranks.gather_everywhere(std::as_bytes(std::span(text)))) {
    places.push_back(RunStores::parse({reinterpret_cast<const char*>(each.data()), each.size()}, {}).current.at(0));
  }
  return places;
}

}  // namespace shoal
