// Where a rank's store is: every rank has one of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "comm/communicator.h"
#include "store/store_options.h"
#include "trainer/train_options.h"

namespace shoal {

struct StorePlace {
  std::filesystem::path store;
  std::filesystem::path cold;  // empty: in the store's folder
  std::uint64_t id = 0;        // of the store that is there or will be; 0: not known yet

  bool operator==(const StorePlace&) const = default;
  StoreOptions options() const;  // that find it: nothing else is set
};

// What stands for itself in a path. A rank of a run that goes on, or of one that is only planned.
struct RankNumbers {
  unsigned rank = 0;
  unsigned size = 1;
  unsigned local_rank = 0;
  std::string host;

  static RankNumbers of(const Communicator& ranks);
};

// --store and --cold with {rank}, {local_rank} and {host} filled in. Of several ranks each gets a folder in there,
// named so that runs with different numbers of ranks never touch each other's.
StorePlace store_place(const TrainOptions& options, const RankNumbers& rank);

std::uint64_t new_store_id();  // at random

// Collective: every rank's place, by rank.
std::vector<StorePlace> all_places(const StorePlace& own, Communicator& ranks);

}  // namespace shoal
