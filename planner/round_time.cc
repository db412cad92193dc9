#include "planner/round_time.h"

#include <algorithm>

namespace shoal {

RoundTime round_time(const RunDescription& run, const Traffic& round, const Machine& machine, const Profile& profile) {
  RoundTime time;
  const double flat = static_cast<double>(run.flat_bytes);
  const double cores = static_cast<double>(machine.cores) / machine.ranks_per_host();
  // Threads beyond the cores take turns.
  time.busy = std::min<double>(run.threads, cores / run.intra_op);
  time.compute = (round.local_steps * profile.step_seconds + round.steps * profile.node_seconds) / time.busy;
  time.mix = (round.neighbour_reads + round.steps) * flat / profile.mix_bytes_per_second / time.busy;
  const double moved = round.bytes_read + round.bytes_written;
  const double record = static_cast<double>(run.store.layout.record_bytes(Part::kPublic));
  // The store's thread copies what is near.
  const double near_seconds = round.near_fetches * record / profile.mapped_bytes_per_second;
  const double store_seconds = moved * profile.store_cpu_seconds_per_byte + near_seconds;
  const double busy_cores = time.busy * run.intra_op;
  // The store's thread has the cores that the workers leave, and shares theirs otherwise.
  const double spare = std::max(0.0, cores - busy_cores) * (time.compute + time.mix);
  time.store = std::max(0.0, store_seconds - spare) / std::min(cores, std::max(1.0, busy_cores));
  time.disk =
      (round.bytes_read / profile.read_bytes_per_second + round.bytes_written / profile.write_bytes_per_second) *
      machine.ranks_per_host();
  const double far_bytes_per_second =
      std::min(profile.get_bytes_per_second, machine.network_bytes_per_second / machine.ranks_per_host());
  time.network = near_seconds + round.far_fetches * record / far_bytes_per_second;
  time.round = std::max({time.processor(), time.disk, time.network});
  if (time.processor() >= std::max(time.disk, time.network)) {
    time.bottleneck = time.store > std::max(time.compute, time.mix) ? "store"
                      : time.mix > time.compute                     ? "mix"
                                                                    : "compute";
  } else {
    time.bottleneck = time.disk >= time.network ? "disk" : "network";
  }
  return time;
}

}  // namespace shoal
