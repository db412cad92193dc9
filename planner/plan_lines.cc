#include "planner/plan_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/whole.h"
#include "store/size_text.h"

namespace shoal {
namespace {

using Unit = PlanLine::Unit;

std::string rate_text(double bytes_per_second) { return size_text(whole(bytes_per_second)) + "/s"; }

PlanSection what_runs(const RunPlan& plan) {
  const RunDescription& run = plan.run;
  PlanSection section{"what runs", {}, {}};
  const auto add = [&](const char* key, const char* label, double value, std::string formula) {
    section.lines.push_back({"", key, label, value, Unit::kCount, std::move(formula)});
  };
  add("nodes", "nodes", run.nodes, "--nodes, or the graph's");
  add("edges", "edges", static_cast<double>(run.edges), run.graph);
  add("parameters", "parameters", static_cast<double>(run.parameters), run.model);
  add("rounds", "rounds", static_cast<double>(run.rounds), "--rounds");
  add("batch", "batch", run.batch, "--batch");
  add("threads", "threads of a rank", run.threads, "--threads");
  add("ranks", "ranks", plan.machine.ranks, "MPI processes in all");
  add("hosts", "hosts", plan.machine.hosts, "machines");
  add("records", run.ranks > 1 ? "records of rank 0" : "records", static_cast<double>(run.records()),
      run.split                    ? "nodes that are its own"
      : run.records() == run.nodes ? "one for each node"
                                   : "the same for all nodes");
  if (run.ranks > 1) add("mean_records", "records of a rank", plan.mean_records, "in the mean");
  if (run.split) {
    add("guests", "guests of rank 0", static_cast<double>(run.guests()), "neighbours that other ranks own");
    add("cut_edges", "cut edges", static_cast<double>(run.cut_edges), "between nodes of different ranks");
    if (run.split_sample > 0) {
      section.notes.push_back(fmt::format(
          "(guests and cut edges are those of a split of {} nodes, scaled; the run's own split takes its time)",
          run.split_sample));
    }
  }
  return section;
}

PlanSection a_node(const RunPlan& plan) {
  PlanSection section{"a node's record, and its share of the disk", {}, {}};
  double sum = 0;
  for (const StateItem& item : plan.per_node) {
    section.lines.push_back(
        {"per_node", item.name, item.name, static_cast<double>(item.bytes), Unit::kBytes, item.formula});
    sum += static_cast<double>(item.bytes);
  }
  const StateLayout& layout = plan.run.store.layout;
  section.lines.push_back({"per_node", "sum", "sum", sum, Unit::kBytes, "of the above"});
  section.lines.push_back({"", "state_bytes_per_node", "of that, state", static_cast<double>(layout.state_bytes()),
                           Unit::kBytes,
                           fmt::format("public record {} B, private record {} B", layout.record_bytes(Part::kPublic),
                                       layout.record_bytes(Part::kPrivate))});
  return section;
}

PlanSection ram(const RunPlan& plan) {
  const RunDescription& run = plan.run;
  PlanSection section{run.ranks > 1 ? "RAM of a rank" : "RAM", {}, {}};
  const auto add = [&](const char* object, const std::string& key, const std::string& label, std::uint64_t bytes,
                       const std::string& formula) {
    section.lines.push_back({object, key, label, static_cast<double>(bytes), Unit::kBytes, formula});
  };
  for (const MemoryLine& line : plan.ram) add("memory", line.what, line.what, line.bytes, line.formula);
  if (run.untouched_bytes > 0) {
    add("", "untouched_bytes", "set aside, not touched", run.untouched_bytes, run.untouched_formula);
  }
  add("", "peak_rss_bytes", "peak RSS", plan.peak_rss_bytes,
      run.untouched_bytes > 0 ? "the sum of the above, without what is not touched" : "the sum of the above");
  add("", "ram_budget_bytes", "--ram", run.ram_bytes, "given, or half of what is free");
  add("", "least_ram_bytes", "--ram at least", run.least_ram_bytes,
      "the program's own, and a store that holds the records of one step");
  if (run.device_memory_bytes > 0) {
    add("", "device_memory_bytes", "device memory", run.device_memory_bytes, run.device_memory_formula);
    if (plan.machine.device_memory_bytes == 0) {
      section.notes.emplace_back(
          "device memory was not checked: what the device has is not known here; --device-memory says it");
    }
  }
  return section;
}

PlanSection disk(const RunPlan& plan) {
  const RunDescription& run = plan.run;
  PlanSection section{run.ranks > 1 ? "disk of a rank" : "disk", {}, {}};
  const auto add = [&](const char* key, const char* label, double bytes, std::string formula) {
    section.lines.push_back({"disk", key, label, bytes, Unit::kBytes, std::move(formula)});
  };
  add("warm_bytes", "warm (slabs)", plan.disk.warm_bytes,
      fmt::format(
          "rehearsed: {:.0f} public and {:.0f} private slots at once, in files that grow by 64 MiB or an eighth",
          plan.residency.most_slots[0], plan.residency.most_slots[1]));
  add("cold_bytes", "cold (RocksDB)", plan.disk.cold_bytes,
      "records beyond --warm-bytes at 1.14 to 1 and those they replaced, slot tables of checkpoints");
  add("peak_bytes", "peak", plan.disk.peak_bytes(), "warm and cold: the summary's store_file_bytes");
  add("store_bytes", "in use at the end", plan.disk.end_bytes, "the summary's store_bytes");
  add("needed_bytes", "must be free", static_cast<double>(plan.disk.need.total()),
      "the peak with what a run's timing may add to it, the running slot table and RocksDB's own files; what a run "
      "wants before it starts");
  if (run.stop_disk.store > run.most_disk.store) {
    add("stop_bytes", "with SIGTERM's checkpoint", static_cast<double>(run.stop_disk.total()),
        "at most: --checkpoint-every 0 makes none, but a stop does");
  }
  if (plan.disks.size() > 1 || plan.machine.ranks_per_host() > 1) {
    for (const SharedDisk& each : plan.disks) {
      if (each.folder.empty()) continue;
      section.notes.push_back(fmt::format("{}: {} of {} that are free", each.folder, size_text(each.needed_bytes),
                                          size_text(each.available_bytes)));
    }
  }
  return section;
}

PlanSection a_round(const RunPlan& plan) {
  const RunDescription& run = plan.run;
  const Traffic& round = plan.residency.round;
  const StateLayout& layout = run.store.layout;
  PlanSection section{run.ranks > 1 ? "a round of a rank" : "a round", {}, {}};
  const auto add = [&](const char* key, const char* label, double value, Unit unit, std::string formula) {
    section.lines.push_back({"round", key, label, value, unit, std::move(formula)});
  };
  add("acting", "nodes that act", round.steps * run.nodes_per_step(), Unit::kCount, "mean of the rehearsed rounds");
  add("node_steps", "local steps", round.local_steps, Unit::kCount, "of the nodes that train");
  add("bytes_read", "read from disk", round.bytes_read, Unit::kBytes,
      fmt::format("{:.0f} public misses x {} B, {:.0f} private x {} B (first uses of zeros are free)", round.misses[0],
                  layout.record_bytes(Part::kPublic), round.misses[1], layout.record_bytes(Part::kPrivate)));
  add("bytes_written", "written to disk", round.bytes_written, Unit::kBytes, "records that leave RAM changed");
  if (run.store.warm_bytes != std::numeric_limits<std::uint64_t>::max()) {
    add("cold_bytes_read", "read from the cold tier", round.cold_bytes_read, Unit::kBytes,
        "of what is read; before compression");
    add("cold_bytes_written", "written to the cold tier", round.cold_bytes_written, Unit::kBytes,
        "of what is written; before compression, and before RocksDB's compactions write it again");
  }
  const double own_reads = round.neighbour_reads - round.guest_reads;
  add("neighbour_reads", "models of neighbours", round.neighbour_reads, Unit::kCount, "that steps read");
  add("own_neighbour_bytes", "neighbours, own", own_reads * static_cast<double>(run.flat_bytes), Unit::kBytes,
      fmt::format("{:.0f} reads x {} B; from RAM or as above", own_reads, run.flat_bytes));
  if (run.split) {
    const std::uint64_t record = layout.record_bytes(Part::kPublic);
    const double near_share = round.near_fetches / std::max(1.0, round.near_fetches + round.far_fetches);
    add("guest_reads", "neighbours of other ranks", round.guest_reads, Unit::kCount, "reads of guests");
    add("near_bytes", "from this host's ranks", plan.near_bytes, Unit::kBytes,
        fmt::format("{:.0f} records x {} B through shared memory, for {:.0f} reads", round.near_fetches, record,
                    round.guest_reads * near_share));
    add("far_bytes", "from other hosts", plan.far_bytes, Unit::kBytes,
        fmt::format("{:.0f} records x {} B over the network", round.far_fetches, record));
    add("records_served", "read from disk for others", round.served, Unit::kCount,
        "records that were not in RAM when another rank wanted them; part of what is read from disk");
  }
  add("hit_rate_public", "found in RAM, public", round.hit_rate(Part::kPublic), Unit::kShare,
      fmt::format("{:.0f} of {:.0f} uses need no read", round.hits[0], round.hits[0] + round.misses[0]));
  add("hit_rate_private", "found in RAM, private", round.hit_rate(Part::kPrivate), Unit::kShare,
      fmt::format("{:.0f} of {:.0f} uses need no read", round.hits[1], round.hits[1] + round.misses[1]));
  if (plan.sampled()) {
    section.notes.push_back(
        fmt::format("(a sample: {} of the same kind with {} nodes, RAM in proportion, scaled to {})", run.graph,
                    plan.rehearsed_records, run.records()));
  }
  return section;
}

PlanSection the_run(const RunPlan& plan) {
  const RunDescription& run = plan.run;
  const Residency& residency = plan.residency;
  const auto record = static_cast<double>(run.store.layout.record_bytes(Part::kPublic));
  PlanSection section{run.ranks > 1 ? "the whole run, of a rank" : "the whole run", {}, {}};
  const auto add = [&](const char* key, const char* label, double value, Unit unit, std::string formula) {
    section.lines.push_back({"run", key, label, value, unit, std::move(formula)});
  };
  add("node_steps", "local steps", residency.total.local_steps, Unit::kCount, "of all rounds");
  add("bytes_read", "read from disk", residency.total.bytes_read, Unit::kBytes,
      "creation, all rounds, evaluations and the last inspection");
  add("bytes_written", "written to disk", residency.total.bytes_written, Unit::kBytes, "the same, and checkpoints");
  add("checkpoints", "checkpoints", residency.checkpoints, Unit::kCount, "--checkpoint-every");
  add("checkpoint_bytes_written", "written by a checkpoint", residency.checkpoint_bytes_written, Unit::kBytes,
      "records in RAM that are newer than on disk, in the mean, and 16 B a record for the slot table");
  if (run.split) {
    const double fetches = residency.total.near_fetches + residency.total.far_fetches;
    add("remote_bytes", "from other ranks", fetches * record, Unit::kBytes,
        fmt::format("{:.0f} records x {:.0f} B", fetches, record));
  }
  return section;
}

PlanSection time(const RunPlan& plan) {
  PlanSection section{"time", {}, {}};
  if (!plan.time) {
    section.notes.emplace_back(
        "not known without a profile: 'shoal-plan calibrate --dir DIR' with the same flags measures one");
    return section;
  }
  const RoundTime& time = *plan.time;
  const Profile& profile = *plan.profile;
  const RunDescription& run = plan.run;
  const Traffic& round = plan.residency.round;
  const auto add = [&](const char* key, const char* label, double seconds, std::string formula) {
    section.lines.push_back({"time", key, label, seconds, Unit::kSeconds, std::move(formula)});
  };
  const std::string at_once = time.busy < run.threads
                                  ? fmt::format("{:.3g} of {} threads, for want of cores", time.busy, run.threads)
                                  : fmt::format("{} threads", run.threads);
  const std::string slower = plan.machine.ranks_per_host() > 1
                                 ? fmt::format(" x {:.2f}, for ranks that share a host", profile.ranks_slowdown)
                                 : "";
  add("compute_seconds", "compute", time.compute,
      fmt::format("({:.0f} steps x {} + {:.0f} nodes x {}) / {}{}", round.local_steps,
                  duration_text(profile.step_seconds), round.steps, duration_text(profile.node_seconds), at_once,
                  slower));
  add("mix_seconds", "mix", time.mix,
      fmt::format("{:.0f} inputs x {} B at {} / {}{}", round.neighbour_reads + round.steps, run.flat_bytes,
                  rate_text(profile.mix_bytes_per_second), at_once, slower));
  add("store_seconds", "store's processor time", time.store,
      fmt::format(
          "checksums and system calls, {:.2f} s for a GiB, copies from this host's ranks, and {} for each record "
          "that has to be asked for; where no core is spare",
          profile.store_cpu_seconds_per_byte * (1 << 30), duration_text(profile.request_cpu_seconds)));
  add("disk_seconds", "disk", time.disk,
      fmt::format("{} read and written at {}, shared by {} ranks",
                  size_text(whole(round.bytes_read + round.bytes_written)), rate_text(profile.disk_bytes_per_second),
                  plan.machine.ranks_per_host()));
  add("network_seconds", "network", time.network,
      fmt::format("this host's ranks at {}, other hosts' at {} one-sided or a share of the network's {}",
                  rate_text(profile.mapped_bytes_per_second), rate_text(profile.get_bytes_per_second),
                  rate_text(plan.machine.network_bytes_per_second)));
  if (time.meeting > 0) {
    add("meeting_seconds", "meeting of the ranks", time.meeting, "measured: waiting for the last, sums over all nodes");
  }
  add("round_seconds", "a round", time.round,
      fmt::format("the longest of compute + mix + store, disk, network, then the meeting; the bottleneck is {}",
                  time.bottleneck));
  add("total_seconds", "the run", plan.total_seconds,
      fmt::format("{} rounds, creation, inspection, checkpoints", run.rounds));
  section.lines.push_back({"time", "node_steps_per_second", "node-steps a second", plan.node_steps_per_second,
                           Unit::kRate,
                           fmt::format("{:.0f} local steps of a rank x {} ranks / {}", round.local_steps,
                                       plan.machine.ranks, duration_text(time.round))});
  section.notes.push_back(fmt::format("the bottleneck is {}", time.bottleneck));
  return section;
}

}  // namespace

std::vector<PlanSection> plan_sections(const RunPlan& plan) {
  std::vector<PlanSection> sections = {what_runs(plan), a_node(plan), ram(plan)};
  if (!plan.run.fits_ram()) return sections;
  for (PlanSection section : {disk(plan), a_round(plan), the_run(plan), time(plan)}) {
    sections.push_back(std::move(section));
  }
  return sections;
}

std::string figure_text(double value, PlanLine::Unit unit) {
  switch (unit) {
    case Unit::kBytes: return size_text(whole(value));
    case Unit::kSeconds: return duration_text(value);
    case Unit::kShare: return fmt::format("{:.1f} %", 100 * value);
    case Unit::kCount: return fmt::format("{:.0f}", value);
    case Unit::kRate: return fmt::format("{:.1f}", value);
  }
  return "";
}

std::string duration_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  const auto minutes = static_cast<std::uint64_t>(std::llround(seconds / 60));
  if (minutes < 120) return fmt::format("{} min", minutes);
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

}  // namespace shoal
