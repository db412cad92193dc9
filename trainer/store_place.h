// Which folder is whose: every rank has a store of its own, and OUT/stores.json says where they all are.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "trainer/train_options.h"

namespace shoal {

struct StorePlace {
  std::filesystem::path store;
  std::filesystem::path cold;  // empty: in the store's folder
};

// --store and --cold with {rank}, {local_rank} and {host} filled in. Of several ranks each gets a folder in there,
// named so that runs with different numbers of ranks never touch each other's.
StorePlace store_place(const TrainOptions& options, const Communicator& ranks);

inline constexpr const char* kStoresFile = "stores.json";
std::string stores_text(const std::vector<StorePlace>& places);  // by rank
std::vector<StorePlace> parse_stores(const std::string& text);
std::vector<StorePlace> read_stores(const std::filesystem::path& out);

// Collective: every rank's place, by rank.
std::vector<StorePlace> all_places(const StorePlace& own, Communicator& ranks);

}  // namespace shoal
