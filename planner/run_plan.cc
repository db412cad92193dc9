#include "planner/run_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/record_items.h"
#include "planner/whole.h"
#include "store/memory_budget.h"
#include "store/memory_plan.h"
#include "store/size_text.h"

namespace shoal {
namespace {

// Of more ranks, so many are looked at; they are much alike.
constexpr unsigned kMostRanks = 8;
constexpr unsigned kQuickRanks = 2;

// What lies on disk for a node beside its current record. `without`: the slabs of the same run without checkpoints.
void add_disk_shares(RunPlan& plan, double without) {
  const RunDescription& run = plan.run;
  const double records = plan.mean_records;
  const double state = static_cast<double>(run.store.layout.state_bytes());
  const double slabs = plan.disk.warm_bytes / records;
  const double copies = without / records - state;
  const auto add = [&](const char* what, double bytes, std::string formula) {
    if (bytes > 0) plan.per_node.push_back({what, Part::kPublic, whole(bytes), std::move(formula)});
  };
  add("copy-on-write share", copies,
      fmt::format(
          "slabs of {} for {:.0f} records, less their current state: versions that readers of the round still need, "
          "free slots",
          size_text(whole(without)), records));
  add("checkpoint share", slabs - state - std::max(0.0, copies),
      fmt::format("slabs of {} with checkpoints: what the last one refers to and newer records replaced",
                  size_text(whole(plan.disk.warm_bytes))));
}

void add_ram_lines(RunPlan& plan) {
  const RunDescription& run = plan.run;
  const auto add = [&](std::string what, std::uint64_t bytes, std::string formula) {
    plan.ram.push_back({std::move(what), bytes, std::move(formula)});
    plan.peak_rss_bytes += bytes;
  };
  if (run.fits_ram()) {
    const MemoryPlan memory = MemoryPlan::for_options(run.store);
    add(std::string(name(MemoryTag::kArena)), memory.arena,
        fmt::format("what is left of --ram, or less where all of the state takes less: room for {} records",
                    memory.arena / run.store.layout.state_bytes()));
    add(std::string(name(MemoryTag::kCold)), memory.cold,
        "RocksDB: a 32nd of the RAM that is of use, from 8 MiB to 64 MiB");
    add(std::string(name(MemoryTag::kIo)), memory.io, fmt::format("ring, queues and {} flights", memory.flights));
    add(std::string(name(MemoryTag::kTables)), memory.tables,
        fmt::format("slot table, frame table and residency of {} records", run.records()));
    add(std::string(name(MemoryTag::kPlan)), memory.plans,
        fmt::format("access plans of {} rounds and their use index", run.store.rounds_ahead));
  }
  for (const MemoryLine& line : run.program) add(line.what, line.bytes, line.formula);
  plan.peak_rss_bytes -= run.untouched_bytes;
  add("activations", run.activation_bytes, run.activation_formula + "; on top of --ram");
  add(run.ranks > 1 ? "LibTorch, MPI and code" : "LibTorch and code", run.library_bytes,
      "a constant, measured; on top of --ram");
}

void add_time(RunPlan& plan) {
  const Profile& profile = *plan.profile;
  const RunDescription& run = plan.run;
  const Residency& residency = plan.residency;
  plan.time = round_time(run, residency.round, plan.machine, profile);
  const double share = plan.machine.ranks_per_host();
  const auto disk_seconds = [&](double read, double written) {
    return (read / profile.read_bytes_per_second + written / profile.write_bytes_per_second) * share;
  };
  const double rounds = static_cast<double>(run.rounds);
  double seconds = rounds * plan.time->round;
  // Creation, evaluations, checkpoints and the last inspection: what of the total is not a round's.
  seconds += disk_seconds(std::max(0.0, residency.total.bytes_read - rounds * residency.round.bytes_read),
                          std::max(0.0, residency.total.bytes_written - rounds * residency.round.bytes_written));
  plan.total_seconds = seconds;
  if (plan.time->round > 0) {
    plan.node_steps_per_second = residency.round.local_steps * plan.machine.ranks / plan.time->round;
  }
}

// What all ranks of a host need of each disk there is.
void add_disks(RunPlan& plan, const RunChange& change) {
  DiskNeed need = plan.disk.need;
  if (change.warm_bytes) need.cold = 0;  // on a disk that nothing is known of
  if (plan.machine.disk_bytes) {
    const bool apart = !plan.run.store.cold_directory.empty();
    plan.disks.push_back({"", "", 1, need.store + (apart ? 0 : need.cold), *plan.machine.disk_bytes});
    return;
  }
  std::vector<DiskShare> shares;
  for (const RankDisk& rank : plan.machine.disks) {
    for (const DiskShare& share : rank.with(need)) shares.push_back(share);
  }
  plan.disks = add_up(shares);
}

void find_misfits(RunPlan& plan) {
  const RunDescription& run = plan.run;
  if (!run.fits_ram()) plan.misfits.push_back({"RAM", "", run.least_ram_bytes, run.ram_bytes});
  for (const SharedDisk& disk : plan.disks) {
    if (!disk.fits()) plan.misfits.push_back({"disk", disk.folder, disk.needed_bytes, disk.available_bytes});
  }
  if (plan.machine.device_memory_bytes != 0 && run.device_memory_bytes > plan.machine.device_memory_bytes) {
    plan.misfits.push_back({"device memory", "", run.device_memory_bytes, plan.machine.device_memory_bytes});
  }
}

}  // namespace

Planner::Planner(Describe describe, Machine machine, std::optional<Profile> profile)
    : describe_(std::move(describe)), machine_(std::move(machine)), profile_(std::move(profile)) {}

Planner::Rank Planner::rehearse_rank(const RunDescription& run, const RunChange& change, Effort effort) const {
  Rank rank;
  rank.rehearsed = run.records();
  if (const NodeId nodes = sample_nodes(run, effort); nodes == 0) {
    rank.residency = rehearse(run);
  } else {
    RunChange smaller = change;
    smaller.nodes = nodes;
    smaller.sample_of = run.nodes;
    RunDescription sample = describe_(smaller);
    sample.rounds = run.rounds;
    sample.checkpoint_every = run.checkpoint_every;
    put_in_proportion(sample, run);
    rank.rehearsed = sample.records();
    rank.residency = scaled_up(rehearse(sample), sample, run);
  }
  rank.disk =
      disk_plan(run, rank.residency, rank.rehearsed == run.records() ? Rehearsed::kInFull : Rehearsed::kOnASample);
  return rank;
}

DiskNeed Planner::disk_need(const RunChange& change) const {
  return rehearse_rank(describe_(change), change, Effort::kFull).disk.need;
}

// The plan's own rank is among them.
void Planner::add_ranks(RunPlan& plan, const RunChange& change, Effort effort) const {
  RunDescription& run = plan.run;
  const unsigned most = effort == Effort::kFull ? kMostRanks : kQuickRanks;
  const unsigned count = run.split ? std::min(run.ranks, most) : 1;
  const auto rank = [&](unsigned i) {
    RunChange other = change;
    other.rank = i * run.ranks / count;
    return other;
  };
  std::vector<RunDescription> ranks = {run};
  plan.mean_records = static_cast<double>(run.records());
  for (unsigned i = 1; i < count; ++i) {
    ranks.push_back(describe_(rank(i)));
    run.least_ram_bytes = std::max(run.least_ram_bytes, ranks.back().least_ram_bytes);
    run.resident_ram_bytes = std::max(run.resident_ram_bytes, ranks.back().resident_ram_bytes);
    plan.mean_records += static_cast<double>(ranks.back().records());
  }
  plan.mean_records /= count;
  if (!run.fits_ram()) return;
  Residency sum;
  for (unsigned i = 0; i < count; ++i) {
    const Rank each = rehearse_rank(ranks[i], rank(i), effort);
    sum += each.residency;
    plan.disk += each.disk;
    plan.rehearsed_records = each.rehearsed;
  }
  plan.residency = sum.scaled(1.0 / count, 1.0 / count);
  plan.disk = plan.disk.divided(count);
}

double Planner::slabs_without_checkpoints(const RunPlan& plan, const RunChange& change, Effort effort) const {
  if (plan.run.checkpoint_every == 0 || effort == Effort::kQuick) return plan.disk.warm_bytes;
  RunDescription run = plan.run;
  run.checkpoint_every = 0;
  run.slot_use.checkpoints = 0;
  const double of_this_rank = rehearse_rank(run, change, effort).disk.warm_bytes;
  return of_this_rank * plan.mean_records / static_cast<double>(run.records());
}

RunPlan Planner::plan(const RunChange& change, Effort effort) const {
  RunPlan plan;
  plan.run = describe_(change);
  plan.machine = machine_;
  plan.machine.ranks = change.ranks.value_or(machine_.ranks);
  plan.machine.hosts = change.hosts.value_or(machine_.hosts);
  plan.profile = profile_;
  const RunDescription& run = plan.run;
  plan.per_node = record_items(run.items, run.store.layout);
  add_ranks(plan, change, effort);
  if (run.fits_ram()) {
    const Residency& residency = plan.residency;
    add_disk_shares(plan, slabs_without_checkpoints(plan, change, effort));
    const auto record = static_cast<double>(run.store.layout.record_bytes(Part::kPublic));
    plan.near_bytes = residency.round.near_fetches * record;
    plan.far_bytes = residency.round.far_fetches * record;
    if (profile_) add_time(plan);
    add_disks(plan, change);
  }
  add_ram_lines(plan);
  find_misfits(plan);
  return plan;
}

}  // namespace shoal
