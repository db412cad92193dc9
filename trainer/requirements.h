// What a run takes on one rank: RAM by purpose, disk, bytes per node; and whether it fits. Computed before anything is
// written.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "store/memory_plan.h"
#include "store/store_options.h"
#include "trainer/experiment.h"
#include "trainer/share.h"
#include "trainer/store_place.h"

namespace shoal {

struct Requirements {
  // `place` is where the rank's store will be.
  Requirements(const Experiment& experiment, const Share& share, const StorePlace& place);

  StoreOptions store;                                          // with what is left of --ram for it
  std::vector<std::pair<std::string, std::uint64_t>> trainer;  // RAM outside of the store, by purpose
  std::uint64_t trainer_bytes = 0;
  std::uint64_t ram_bytes = 0;
  std::uint64_t least_ram_bytes = 0;
  std::uint64_t mapped_bytes = 0;  // of other ranks' memory that may be mapped here
  std::uint64_t records = 0;       // of this rank
  std::uint64_t state_bytes_per_node = 0;
  std::uint64_t disk_bytes = 0;  // at most, checkpoints included
  bool in_ram = false;           // rounds touch no disk

  // Errors that say what does not fit, and by how much.
  void check_ram() const;
  void check_disk() const;
  std::string text(const Experiment& experiment) const;
  nlohmann::json json() const;
};

}  // namespace shoal
