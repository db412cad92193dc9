// What a run takes on one rank: RAM by purpose, disk, bytes per node. Computed before anything is written.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/disk_need.h"
#include "store/memory_plan.h"
#include "store/store_options.h"
#include "trainer/experiment.h"
#include "trainer/share.h"
#include "trainer/store_place.h"

namespace shoal {

// A rank's part of the population, by its numbers: of a share that there is, or as a sample tells them.
struct ShareSize {
  ShareSize() = default;
  ShareSize(const Experiment& experiment, const Share& share);

  bool whole = true;
  NodeId nodes = 0;
  NodeId guests = 0;
  std::uint64_t reads = 0;                    // neighbours of own nodes, each as often as it is one
  std::uint64_t bytes = 0;                    // of memory
  std::optional<std::uint64_t> old_versions;  // StoreOptions::old_versions
};

struct Requirements {
  // `place` is where the rank's store will be.
  Requirements(const Experiment& experiment, const ShareSize& share, const StorePlace& place);
  void give_ram(std::uint64_t bytes);  // instead of --ram

  StoreOptions store;                                          // with what is left of --ram for it
  std::vector<std::pair<std::string, std::uint64_t>> trainer;  // RAM outside of the store, by purpose
  std::uint64_t trainer_bytes = 0;
  std::uint64_t ram_bytes = 0;
  std::uint64_t least_ram_bytes = 0;
  std::uint64_t mapped_bytes = 0;       // of other ranks' memory that may be mapped here
  std::uint64_t more_mapped_bytes = 0;  // of those: beyond what the least RAM has room for
  std::uint64_t records = 0;            // of this rank
  std::uint64_t state_bytes_per_node = 0;
  SlotUse slot_use;
  DiskNeed disk;                         // at most, the checkpoints that were asked for included
  DiskNeed stop_disk;                    // at most, with the checkpoint that SIGTERM makes
  std::uint64_t resident_ram_bytes = 0;  // from which rounds touch no disk, and more changes nothing

  void check_ram() const;  // an Error that says by how much it is too little
  std::string text(const Experiment& experiment) const;
  nlohmann::json json() const;

 private:
  void map_ranks();
  std::uint64_t least_resident() const;
};

}  // namespace shoal
