// What a rehearsed run takes on disk.
#pragma once

#include "planner/residency.h"
#include "planner/run_description.h"

namespace shoal {

// Of one rank.
struct DiskPlan {
  double warm_bytes = 0;  // slab files at their largest
  double cold_bytes = 0;  // the database, about
  double end_bytes = 0;   // in use at the end: what the summary calls store_bytes
  DiskNeed need;          // what must be free: never less than the run takes
  double peak_bytes() const { return warm_bytes + cold_bytes; }

  DiskPlan& operator+=(const DiskPlan& other);
  DiskPlan divided(unsigned ranks) const;
};

enum class Rehearsed { kInFull, kOnASample };
DiskPlan disk_plan(const RunDescription& run, const Residency& residency, Rehearsed how);

}  // namespace shoal
