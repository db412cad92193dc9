// A plan for programs: every figure of the table, in bytes and seconds, and under "formulas" how it comes about.
#include <cmath>

#include "planner/plan_text.h"
#include "planner/whole.h"

namespace shoal {
namespace {

using nlohmann::json;

json number(const PlanLine& line) {
  const bool is_whole = line.unit == PlanLine::Unit::kBytes || line.value == std::floor(line.value);
  if (is_whole && line.unit != PlanLine::Unit::kSeconds) return whole(line.value);
  return line.value;
}

}  // namespace

json plan_json(const RunPlan& plan, const Advice& advice) {
  const RunDescription& run = plan.run;
  json result = {{"model", run.model},
                 {"algorithm", run.algorithm},
                 {"optimizer", run.optimizer},
                 {"graph", run.graph},
                 {"device", run.device},
                 {"fits", plan.fits()},
                 {"disks", json::array()},
                 {"misfits", json::array()},
                 {"formulas", json::object()},
                 {"sampled", plan.sampled()},
                 {"time", nullptr},
                 {"rehearsed_records", plan.rehearsed_records}};
  for (const PlanSection& section : plan_sections(plan)) {
    for (const PlanLine& line : section.lines) {
      (line.object.empty() ? result : result[line.object])[line.key] = number(line);
      result["formulas"][line.object.empty() ? "plan" : line.object][line.key] = line.formula;
    }
  }
  if (plan.time) result["time"]["bottleneck"] = plan.time->bottleneck;
  for (const SharedDisk& disk : plan.disks) {
    result["disks"].push_back(
        {{"folder", disk.folder}, {"needed_bytes", disk.needed_bytes}, {"available_bytes", disk.available_bytes}});
  }
  for (const Misfit& misfit : plan.misfits) {
    result["misfits"].push_back({{"what", misfit.what},
                                 {"where", misfit.where},
                                 {"needed_bytes", misfit.needed},
                                 {"available_bytes", misfit.available}});
  }
  result["advice"] = {{"most_useful_ram_bytes", advice.most_useful_ram},
                      {"threads", advice.threads},
                      {"ranks", advice.ranks},
                      {"lines", advice.lines},
                      {"changes", advice.changes}};
  result["advice"]["smallest_fast_ram_bytes"] =
      advice.smallest_fast_ram ? json(*advice.smallest_fast_ram) : json(nullptr);
  return result;
}

}  // namespace shoal
