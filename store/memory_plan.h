// How the one RAM number is divided, before anything is allocated. The planner and the store read the same figures.
#pragma once

#include <cstdint>

#include "store/store_options.h"

namespace shoal {

struct MemoryPlan {
  std::uint64_t tables = 0;
  std::uint64_t plans = 0;
  std::uint64_t cold = 0;
  std::uint64_t io = 0;
  std::uint64_t arena = 0;

  std::uint64_t prefetch = 0;      // bytes read ahead of use, at most
  std::uint32_t flights = 0;       // steps under way, at most
  std::uint32_t serving = 0;       // frames reserved for what other ranks ask for
  std::uint32_t least_public = 0;  // frames without which one step cannot run, those included
  std::uint32_t least_private = 1;

  // Frames in which all records stay, and the old versions that a round keeps alive. Steps that are ahead of the first
  // one get some more; where those are not enough, they wait for them.
  std::uint64_t all_public = 0;
  std::uint64_t all_private = 0;
  bool resident = false;  // the arena has them: rounds touch no disk

  std::uint64_t total() const { return tables + plans + cold + io + arena; }

  // Frames beyond what a population that fits needs: the device's.
  static constexpr std::uint32_t kSpareFrames = 16;

  // The split for options.ram_bytes; a usage Error that names the minimum when that is too little. A population that is
  // resident takes what it needs and leaves the rest.
  static MemoryPlan for_options(const StoreOptions& options);
  static std::uint64_t minimum(const StoreOptions& options);
  // The RAM from which the population is resident; more changes nothing.
  static std::uint64_t resident_ram(const StoreOptions& options);
};

}  // namespace shoal
