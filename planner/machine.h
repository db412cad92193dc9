// The machine that a run is planned for: this one, unless flags say otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/disk_space.h"

namespace shoal {

struct Machine {
  std::optional<std::uint64_t> disk_bytes;  // that each rank's store may take
  std::vector<RankDisk> disks;              // where that is not given: of the ranks of one host, as this one has them
  unsigned cores = 1;                       // of one host
  unsigned ranks = 1;                       // in all
  unsigned hosts = 1;
  std::uint64_t device_memory_bytes = 0;  // 0: not known
  double network_bytes_per_second = 1.25e9;

  unsigned ranks_per_host() const { return (ranks + hosts - 1) / hosts; }

  static Machine here();  // its cores
};

}  // namespace shoal
