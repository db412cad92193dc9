// What the residency policy will do in a run: hits, misses, bytes and disk, by a rehearsal on the real access plans.
#pragma once

#include <array>
#include <cstdint>

#include "planner/run_description.h"

namespace shoal {

// Of one round or of many; doubles, because a round of a long run is a mean, and a sample is scaled.
struct Traffic {
  double steps = 0;
  double local_steps = 0;
  double neighbour_reads = 0;  // public records of others that steps read, wherever they come from
  double guest_reads = 0;      // of those: of nodes of other ranks
  double near_fetches = 0;     // records that came from ranks of the same host
  double far_fetches = 0;      // and of other hosts
  double served = 0;           // records that were read for other ranks, because they were not in RAM
  std::array<double, kPartCount> hits{};
  std::array<double, kPartCount> misses{};
  double bytes_read = 0;  // slabs and the cold tier's files, with compactions
  double bytes_written = 0;
  double cold_bytes_read = 0;  // of those, before compression
  double cold_bytes_written = 0;

  double hit_rate(Part part) const;
  Traffic& operator+=(const Traffic& other);
  Traffic scaled(double factor, double guests_factor) const;
  Traffic operator*(double factor) const { return scaled(factor, factor); }
};

struct Residency {
  Traffic round;           // once the run is in its stride
  Traffic total;           // of the whole run: creation, evaluations, checkpoints and the last inspection included
  double checkpoints = 0;  // that it makes
  double checkpoint_bytes_written = 0;  // by one of them, in the mean
  double rounds_rehearsed = 0;

  std::array<double, kPartCount> most_slots{};  // in use at once
  double slab_bytes = 0;                        // in use at the end
  double cold_bytes = 0;                        // at the end, before compression
  double most_cold_bytes = 0;                   // after any round

  Residency& operator+=(const Residency& other);
  // As a sample stands for a larger run; what goes between ranks grows with the guests.
  Residency scaled(double factor, double guests_factor) const;
};

// Of a plan's reads: those of nodes that other ranks own, whose numbers begin after the rank's own.
std::uint64_t guest_reads(const AccessPlan& plan, NodeId nodes);

// The run must fit into its RAM.
Residency rehearse(const RunDescription& run);

}  // namespace shoal
