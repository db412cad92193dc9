// A prediction against the real thing: a smaller run of the same shape, planned and then run.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan_lines.h"
#include "planner/run_plan.h"
#include "trainer/train_options.h"

namespace shoal {

struct VerifiedLine {
  std::string section;
  PlanLine line;
  std::optional<double> measured;            // empty: a run does not tell
  std::optional<double> difference() const;  // as a share of the measured figure; 0 when both are 0
};

struct Verification {
  NodeId nodes = 0;
  std::uint64_t rounds = 0;
  std::uint64_t ram_bytes = 0;
  std::vector<VerifiedLine> lines;

  std::string text() const;
  nlohmann::json json() const;
};

// Runs in --store's folder.
Verification verify_plan(const TrainOptions& options, const Machine& machine, const std::optional<Profile>& profile);
// Every line of the plan, in its order, with what the run of this summary (and "metrics") measured.
std::vector<VerifiedLine> compare(const RunPlan& plan, const nlohmann::json& summary);

}  // namespace shoal
