#include "planner/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "planner/plan_text.h"
#include "planner/train_child.h"
#include "store/error.h"
#include "store/memory_budget.h"
#include "store/size_text.h"
#include "trainer/describe.h"
#include "trainer/store_place.h"

namespace shoal {
namespace {

// What a verification may take: some hundred small nodes, or a few large ones.
constexpr std::uint64_t kMostStateBytes = std::uint64_t{768} << 20;
constexpr NodeId kMostNodes = 512;
constexpr NodeId kLeastNodes = 12;
constexpr std::uint64_t kRounds = 4;
constexpr std::uint64_t kRoundsWhereSomeAct = 12;

// Numbers of nodes that the graph's kind can have, from so many on; 0: none that are fewer than the run's.
NodeId least_valid(const RunDescription& full, NodeId wanted) {
  for (std::uint64_t nodes = wanted; nodes < full.nodes; nodes *= 2) {
    if (const NodeId valid = full.nodes_at_most(static_cast<NodeId>(nodes)); valid != 0) return valid;
  }
  return 0;
}

// Fewer nodes and rounds, and RAM in proportion.
TrainOptions reduced(const TrainOptions& options, unsigned ranks) {
  DescribedRun describe(options, ranks);
  const RunDescription full = describe({});
  TrainOptions smaller = options;
  smaller.rounds = std::min(options.rounds, full.all_act ? kRounds : kRoundsWhereSomeAct);
  smaller.eval_every = smaller.rounds;
  if (!full.fits_ram()) return smaller;
  const std::uint64_t fitting = kMostStateBytes / full.store.layout.state_bytes();
  const NodeId least = kLeastNodes * ranks;
  const NodeId nodes =
      least_valid(full, static_cast<NodeId>(std::clamp<std::uint64_t>(fitting, least, std::max(least, kMostNodes))));
  if (nodes == 0) return smaller;
  RunChange change;
  change.nodes = nodes;
  change.sample_of = full.nodes;
  const RunDescription sample = describe(change);
  smaller.nodes = nodes;
  smaller.graph = sample.graph;
  smaller.ram_bytes = sample.program_bytes + store_ram_in_proportion(sample, full);
  if (options.warm_bytes != std::numeric_limits<std::uint64_t>::max()) {
    smaller.warm_bytes = options.warm_bytes / full.records() * sample.records();
  }
  return smaller;
}

using Figures = std::map<std::string, double>;

// Of metrics.jsonl: a round is the mean of those that the plan's is the mean of, all but the first.
void add_rounds(Figures& figures, const RunPlan& plan, const nlohmann::json& lines) {
  const std::size_t first = lines.size() > 1 ? 1 : 0;
  const auto mean = [&](const std::string& key) {
    double sum = 0;
    for (std::size_t i = first; i < lines.size(); ++i) {
      sum += lines[i].at(nlohmann::json::json_pointer(key)).get<double>();
    }
    return sum / static_cast<double>(lines.size() - first) / plan.run.ranks;
  };
  for (const char* key : {"acting", "node_steps", "bytes_read", "bytes_written", "neighbour_reads"}) {
    figures[std::string("round.") + key] = mean(std::string("/") + key);
  }
  figures["round.cold_bytes_read"] = mean("/cold_records_read");
  figures["round.cold_bytes_written"] = mean("/cold_records_written");
  figures["round.guest_reads"] = mean("/remote_reads");
  figures["round.own_neighbour_bytes"] =
      (mean("/neighbour_reads") - mean("/remote_reads")) * static_cast<double>(plan.run.flat_bytes);
  figures["round.near_bytes"] = mean("/remote_bytes");
  figures["round.far_bytes"] = 0;  // a verification runs on one host
  figures["round.records_served"] =
      mean("/requested_bytes") / static_cast<double>(plan.run.store.layout.record_bytes(Part::kPublic));
  for (const Part part : kParts) {
    const std::string which(name(part));
    const double hits = mean("/hits/" + which);
    const double uses = hits + mean("/misses/" + which);
    figures["round.hit_rate_" + which] = uses > 0 ? hits / uses : 1;
  }
}

// A node's share of the slab files. What of it checkpoints add, a run with checkpoints cannot tell.
void add_record(Figures& figures, const RunPlan& plan, const nlohmann::json& summary) {
  for (const auto& [item, bytes] : summary["record"].items()) figures["per_node." + item] = bytes.get<double>();
  const auto state = summary["state_bytes_per_node"].get<double>();
  const double slabs = summary["slab_file_bytes"].get<double>() / plan.run.ranks / plan.mean_records;
  figures["per_node.sum"] = std::max(state, slabs);
  if (plan.run.checkpoint_every == 0) figures["per_node.copy-on-write share"] = std::max(0.0, slabs - state);
}

// What a run measured, by the object and key of the plan's line. Figures are one rank's, as the plan's are.
Figures figures_of(const RunPlan& plan, const nlohmann::json& summary) {
  const double ranks = plan.run.ranks;
  const auto figure = [&](const char* key) { return summary[key].get<double>(); };
  const auto rounds = static_cast<double>(plan.run.rounds);
  Figures figures = {
      {"edges", summary["graph"]["edges"].get<double>()},
      {"disk.warm_bytes", figure("slab_file_bytes") / ranks},
      {"disk.cold_bytes", figure("cold_file_bytes") / ranks},
      {"disk.peak_bytes", figure("store_file_bytes") / ranks},
      {"disk.store_bytes", figure("store_bytes") / ranks},
      {"run.node_steps", figure("node_steps") / ranks},
      {"run.bytes_read", figure("bytes_read") / ranks},
      {"run.bytes_written", figure("bytes_written") / ranks},
      {"run.remote_bytes", figure("remote_bytes") / ranks},
      {"run.checkpoints", figure("checkpoints")},
      {"run.checkpoint_bytes_written", figure("checkpoint_bytes") / ranks / std::max(1.0, figure("checkpoints"))},
      {"time.compute_seconds", figure("compute_seconds") / rounds},
      {"time.mix_seconds", figure("mix_seconds") / rounds},
      {"time.round_seconds", figure("training_seconds") / rounds},
      {"time.total_seconds", figure("wall_seconds")},
      {"time.node_steps_per_second", figure("node_steps_per_second")},
  };
  for (const char* key : {"nodes", "parameters", "rounds", "batch", "threads", "ranks", "hosts", "records",
                          "state_bytes_per_node", "peak_rss_bytes", "ram_budget_bytes", "least_ram_bytes"}) {
    figures[key] = figure(key);
  }
  if (summary.contains("per_rank")) {
    double records = 0;
    for (const nlohmann::json& rank : summary["per_rank"]) records += rank["nodes"].get<double>();
    figures["mean_records"] = records / ranks;
    figures["guests"] = summary["per_rank"][0]["guests"].get<double>();
  }
  if (plan.run.split) figures["cut_edges"] = summary["partition"]["cut_edges"].get<double>();
  for (const auto& [key, bytes] : summary["memory"].items()) {
    // Plans are charged as they come, and at the end there are none.
    if (key != name(MemoryTag::kPlan)) figures["memory." + key] = bytes.get<double>();
  }
  add_record(figures, plan, summary);
  add_rounds(figures, plan, summary["metrics"]);
  return figures;
}

const char* unit_name(PlanLine::Unit unit) {
  switch (unit) {
    case PlanLine::Unit::kBytes: return "bytes";
    case PlanLine::Unit::kSeconds: return "seconds";
    case PlanLine::Unit::kShare: return "share";
    case PlanLine::Unit::kCount: return "count";
    case PlanLine::Unit::kRate: return "per second";
  }
  return "";
}

}  // namespace

std::optional<double> VerifiedLine::difference() const {
  if (!measured || (*measured == 0 && line.value != 0)) return std::nullopt;
  return line.value == *measured ? 0 : line.value / *measured - 1;
}

std::vector<VerifiedLine> compare(const RunPlan& plan, const nlohmann::json& summary) {
  const Figures measured = figures_of(plan, summary);
  std::vector<VerifiedLine> lines;
  for (const PlanSection& section : plan_sections(plan)) {
    for (const PlanLine& line : section.lines) {
      const auto found = measured.find(line.path());
      lines.push_back({section.title, line, std::nullopt});
      if (found != measured.end()) lines.back().measured = found->second;
    }
  }
  return lines;
}

Verification verify_plan(const TrainOptions& options, const Machine& machine, const std::optional<Profile>& profile) {
  const TrainOptions smaller = reduced(options, machine.ranks);
  DescribedRun describe(smaller, machine.ranks);
  const RunPlan plan = Planner(std::ref(describe), machine, profile).plan();
  if (!plan.fits()) throw Error("--verify: " + misfit_text(plan.misfits.front()), ExitCode::kDoesNotFit);
  const ScratchFolder scratch(store_place(options, {}).store);
  const nlohmann::json summary = run_shoal_train(smaller, scratch.path(), machine.ranks);
  return {plan.run.nodes, plan.run.rounds, plan.run.ram_bytes, compare(plan, summary)};
}

std::string Verification::text() const {
  std::string text = fmt::format("{} nodes, {} rounds, --ram {}\n{:<30}{:>14}{:>14}{:>12}\n", nodes, rounds,
                                 size_text(ram_bytes), "", "predicted", "measured", "difference");
  std::string section;
  for (const VerifiedLine& each : lines) {
    if (each.section != section) text += fmt::format("{}\n", section = each.section);
    const std::optional<double> difference = each.difference();
    text += fmt::format("  {:<28}{:>14}{:>14}{:>12}\n", each.line.label, figure_text(each.line.value, each.line.unit),
                        each.measured ? figure_text(*each.measured, each.line.unit) : "-",
                        difference ? fmt::format("{:+.1f} %", 100 * *difference) : "-");
  }
  return text;
}

nlohmann::json Verification::json() const {
  nlohmann::json result = {{"nodes", nodes}, {"rounds", rounds}, {"ram_budget_bytes", ram_bytes}};
  result["lines"] = nlohmann::json::array();
  for (const VerifiedLine& each : lines) {
    result["lines"].push_back({{"section", each.section},
                               {"what", each.line.label},
                               {"key", each.line.path()},
                               {"unit", unit_name(each.line.unit)},
                               {"predicted", each.line.value},
                               {"measured", each.measured ? nlohmann::json(*each.measured) : nlohmann::json(nullptr)}});
  }
  return result;
}

}  // namespace shoal
