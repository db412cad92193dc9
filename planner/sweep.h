// One plan for each of several values of --ram or --nodes: as a table, a plot in the terminal, CSV or JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "planner/run_plan.h"

namespace shoal {

struct SweepRange {
  enum class What { kRam, kNodes };
  What what = What::kRam;
  std::vector<std::uint64_t> values;  // ascending
};
// "ram=1GiB..64GiB", "nodes=1000..100000": both ends and, evenly on a logarithmic scale, what lies between.
SweepRange parse_sweep(std::string_view text);

struct SweepPoint {
  std::uint64_t value = 0;
  std::string error;  // why there is no plan: a graph that cannot have so many nodes
  RunPlan plan;
};
std::vector<SweepPoint> run_sweep(const Planner& planner, const SweepRange& range);

std::string sweep_text(const SweepRange& range, const std::vector<SweepPoint>& points);
std::string sweep_csv(const SweepRange& range, const std::vector<SweepPoint>& points);
nlohmann::json sweep_json(const SweepRange& range, const std::vector<SweepPoint>& points);

}  // namespace shoal
