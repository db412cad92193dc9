// A plan for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "planner/advice.h"
#include "planner/plan_lines.h"
#include "planner/run_plan.h"

namespace shoal {

enum class Formulas { kHidden, kShown };

std::string plan_text(const RunPlan& plan, const Advice& advice, Formulas formulas);
nlohmann::json plan_json(const RunPlan& plan, const Advice& advice);
// "RAM: 64 MiB are needed and 32 MiB are there, 32 MiB too little".
std::string misfit_text(const Misfit& misfit);

}  // namespace shoal
