// The answer: where every byte of a run goes, what moves in a round, how long it takes, and whether it fits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/disk_plan.h"
#include "planner/machine.h"
#include "planner/profile.h"
#include "planner/residency.h"
#include "planner/round_time.h"
#include "planner/run_description.h"
#include "planner/sample.h"

namespace shoal {

struct Misfit {
  std::string what;   // "RAM", "disk", "device memory"
  std::string where;  // of a disk: a folder on it; may be empty
  std::uint64_t needed = 0;
  std::uint64_t available = 0;
};

// Figures are one rank's, but for what says otherwise: of several, RAM is what the rank with the most needs, and
// traffic, time and disk are their mean.
struct RunPlan {
  RunDescription run;
  Machine machine;
  std::optional<Profile> profile;
  std::vector<Misfit> misfits;

  std::vector<StateItem> per_node;  // sums up to what a node takes on disk, old versions and checkpoints included
  std::vector<MemoryLine> ram;      // sums up, less what the run does not touch, to the peak RSS
  std::uint64_t peak_rss_bytes = 0;

  // What follows is empty when RAM is too little for the run.
  double mean_records = 0;              // of a rank
  std::uint64_t rehearsed_records = 0;  // fewer than the run's: a sample
  Residency residency;
  DiskPlan disk;
  std::vector<SharedDisk> disks;  // of a host, with what all its ranks need
  double near_bytes = 0;          // from other ranks of the host, in a round
  double far_bytes = 0;           // and of other hosts
  std::optional<RoundTime> time;  // with a profile
  double total_seconds = 0;
  double node_steps_per_second = 0;  // of all ranks

  bool fits() const { return misfits.empty(); }
  bool sampled() const { return rehearsed_records != 0 && rehearsed_records < run.records(); }
};

class Planner {
 public:
  Planner(Describe describe, Machine machine, std::optional<Profile> profile);

  RunDescription describe(const RunChange& change = {}) const { return describe_(change); }
  RunPlan plan(const RunChange& change = {}, Effort effort = Effort::kFull) const;
  // What must be free on the disks of the rank that the change names, which must have RAM enough.
  DiskNeed disk_need(const RunChange& change) const;

 private:
  struct Rank {
    Residency residency;
    DiskPlan disk;
    std::uint64_t rehearsed = 0;  // records
  };
  Rank rehearse_rank(const RunDescription& run, const RunChange& change, Effort effort) const;
  void add_ranks(RunPlan& plan, const RunChange& change, Effort effort) const;
  double slabs_without_checkpoints(const RunPlan& plan, const RunChange& change, Effort effort) const;

  Describe describe_;
  Machine machine_;
  std::optional<Profile> profile_;
};

}  // namespace shoal
