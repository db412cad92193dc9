#include "planner/round_time.h"

#include <algorithm>

#include "store/memory_plan.h"

namespace shoal {
namespace {

// Whether the arena holds the records of one step more than are at work. Otherwise a worker's next reads begin when its
// step is done: few large models in little RAM.
bool reads_ahead(const RunDescription& run, const Traffic& round, double at_work) {
  if (round.steps == 0) return true;
  const StateLayout& layout = run.store.layout;
  const double publics = 2 + round.neighbour_reads / round.steps;  // with the node's own, before and after
  const double step = publics * static_cast<double>(layout.record_bytes(Part::kPublic)) +
                      static_cast<double>(layout.record_bytes(Part::kPrivate));
  return static_cast<double>(MemoryPlan::for_options(run.store).arena) >= (at_work + 1) * step;
}

}  // namespace

RoundTime round_time(const RunDescription& run, const Traffic& round, const Machine& machine, const Profile& profile) {
  RoundTime time;
  const double flat = static_cast<double>(run.flat_bytes);
  const double cores = static_cast<double>(machine.cores) / machine.ranks_per_host();
  // Threads beyond the cores take turns.
  time.busy = std::min<double>(run.threads, cores / run.intra_op);
  // Their frames lie in shared memory, and other threads of theirs come between.
  const double slowdown = machine.ranks_per_host() > 1 ? profile.ranks_slowdown : 1;
  time.compute = slowdown * (round.local_steps * profile.step_seconds + round.steps * profile.node_seconds) / time.busy;
  time.mix = slowdown * (round.neighbour_reads + round.steps) * flat / profile.mix_bytes_per_second / time.busy;
  const double moved = round.bytes_read + round.bytes_written;
  const double record = static_cast<double>(run.store.layout.record_bytes(Part::kPublic));
  // The store's thread copies what is near and listed; what is not is asked for, and the communication threads move it.
  // Ranks are alike: this one asks for as many records as it serves.
  const double fetches = round.near_fetches + round.far_fetches;
  const double asked = std::min(round.served, fetches);
  const double copied = fetches > 0 ? round.near_fetches * (1 - asked / fetches) : 0;
  const double store_seconds = moved * profile.store_cpu_seconds_per_byte +
                               copied * record / profile.mapped_bytes_per_second + asked * profile.request_cpu_seconds;
  const double busy_cores = time.busy * run.intra_op;
  // The store's thread has the cores that the workers leave, and shares theirs otherwise.
  const double spare = std::max(0.0, cores - busy_cores) * (time.compute + time.mix);
  time.store = std::max(0.0, store_seconds - spare) / std::min(cores, std::max(1.0, busy_cores));
  time.disk = moved / profile.disk_bytes_per_second * machine.ranks_per_host();
  const double far_bytes_per_second =
      std::min(profile.get_bytes_per_second, machine.network_bytes_per_second / machine.ranks_per_host());
  time.network =
      round.near_fetches * record / profile.mapped_bytes_per_second + round.far_fetches * record / far_bytes_per_second;
  time.meeting = machine.ranks_per_host() > 1 ? profile.meeting_seconds : 0;
  // Each worker waits for its own reads; the others compute meanwhile.
  double waits = 0;
  if (moved > 0 && !reads_ahead(run, round, time.busy)) waits = time.disk * round.bytes_read / moved / time.busy;
  time.round = std::max({time.processor() + waits, time.disk, time.network}) + time.meeting;
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
