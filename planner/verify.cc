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

// What a run measured, by the object and key of the plan's line. Figures are one rank's, as the plan's are; a round is
// the mean of those that the plan's is the mean of: all but the first.
std::map<std::string, double> figures_of(const RunPlan& plan, const nlohmann::json& summary) {
  const double ranks = plan.run.ranks;
  const auto figure = [&](const char* key) { return summary[key].get<double>(); };
  std::map<std::string, double> figures = {
      {".nodes", figure("nodes")},
      {".edges", summary["graph"]["edges"].get<double>()},
      {".parameters", figure("parameters")},
      {".state_bytes_per_node", figure("state_bytes_per_node")},
      {".peak_rss_bytes", figure("peak_rss_bytes")},
      {"disk.peak_bytes", figure("store_file_bytes") / ranks},
      {"disk.store_bytes", figure("store_bytes") / ranks},
      {"run.node_steps", figure("node_steps") / ranks},
      {"run.bytes_read", figure("bytes_read") / ranks},
      {"run.bytes_written", figure("bytes_written") / ranks},
      {"run.remote_bytes", figure("remote_bytes") / ranks},
      {"time.compute_seconds", figure("compute_seconds") / static_cast<double>(plan.run.rounds)},
      {"time.mix_seconds", figure("mix_seconds") / static_cast<double>(plan.run.rounds)},
      {"time.round_seconds", figure("training_seconds") / static_cast<double>(plan.run.rounds)},
      {"time.total_seconds", figure("wall_seconds")},
      {"time.node_steps_per_second", figure("node_steps_per_second")},
  };
  if (plan.residency.checkpoints > 0) {
    figures["run.checkpoint_bytes_written"] = figure("checkpoint_bytes") / ranks / plan.residency.checkpoints;
  }
  if (plan.run.split) {
    figures[".cut_edges"] = summary["partition"]["cut_edges"].get<double>();
  } else {
    figures[".least_ram_bytes"] = figure("least_ram_bytes");  // of several ranks the plan has the largest
  }

  const nlohmann::json& rounds = summary["metrics"];
  const std::size_t first = rounds.size() > 1 ? 1 : 0;
  const auto mean = [&](const nlohmann::json::json_pointer& key) {
    double sum = 0;
    for (std::size_t i = first; i < rounds.size(); ++i) sum += rounds[i].at(key).get<double>();
    return sum / static_cast<double>(rounds.size() - first) / ranks;
  };
  using Key = nlohmann::json::json_pointer;
  for (const char* key : {"acting", "node_steps", "bytes_read", "bytes_written"}) {
    figures[std::string("round.") + key] = mean(Key(std::string("/") + key));
  }
  figures["round.near_bytes"] = mean(Key("/remote_bytes"));
  for (const Part part : kParts) {
    const std::string which(name(part));
    const double hits = mean(Key("/hits/" + which));
    const double uses = hits + mean(Key("/misses/" + which));
    figures["round.hit_rate_" + which] = uses > 0 ? hits / uses : 1;
  }
  for (const auto& [key, bytes] : summary["memory"].items()) {
    // Plans are charged as they come, and at the end there are none.
    if (key != name(MemoryTag::kPlan)) figures["memory." + key] = bytes.get<double>();
  }
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

double VerifiedLine::difference() const {
  if (predicted == measured) return 0;
  return predicted / measured - 1;
}

std::vector<VerifiedLine> compare(const RunPlan& plan, const nlohmann::json& summary) {
  const std::map<std::string, double> measured = figures_of(plan, summary);
  std::vector<VerifiedLine> lines;
  for (const PlanSection& section : plan_sections(plan)) {
    for (const PlanLine& line : section.lines) {
      const auto found = measured.find(line.object + "." + line.key);
      if (found == measured.end()) continue;
      lines.push_back({section.title, line.label, line.value, found->second, line.unit});
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
  for (const VerifiedLine& line : lines) {
    if (line.section != section) text += fmt::format("{}\n", section = line.section);
    text += fmt::format(
        "  {:<28}{:>14}{:>14}{:>12}\n", line.what, figure_text(line.predicted, line.unit),
        figure_text(line.measured, line.unit),
        line.measured == 0 && line.predicted != 0 ? "-" : fmt::format("{:+.1f} %", 100 * line.difference()));
  }
  return text;
}

nlohmann::json Verification::json() const {
  nlohmann::json result = {{"nodes", nodes}, {"rounds", rounds}, {"ram_budget_bytes", ram_bytes}};
  result["lines"] = nlohmann::json::array();
  for (const VerifiedLine& line : lines) {
    result["lines"].push_back({{"section", line.section},
                               {"what", line.what},
                               {"unit", unit_name(line.unit)},
                               {"predicted", line.predicted},
                               {"measured", line.measured}});
  }
  return result;
}

}  // namespace shoal
