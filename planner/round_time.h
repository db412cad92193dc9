// How long a round takes on a machine that was measured.
#pragma once

#include <string>

#include "planner/machine.h"
#include "planner/profile.h"
#include "planner/residency.h"
#include "planner/run_description.h"

namespace shoal {

// Seconds of a round, by what would take them if nothing else did. They overlap: a round takes the longest of
// processor (compute, mix and the store's own work), disk and network; where RAM holds no more than the steps at work,
// workers wait for reads on top of the processor's time.
struct RoundTime {
  double compute = 0;
  double mix = 0;
  double store = 0;  // checksums, system calls and records for and from other ranks, where no core is left for them
  double disk = 0;
  double network = 0;
  double meeting = 0;  // of several ranks, when all of that is done
  double processor() const { return compute + mix + store; }
  double round = 0;
  double busy = 1;         // threads of a rank that compute at once: no more than it has cores
  std::string bottleneck;  // "compute", "mix", "store", "disk", "network"
};

RoundTime round_time(const RunDescription& run, const Traffic& round, const Machine& machine, const Profile& profile);

}  // namespace shoal
