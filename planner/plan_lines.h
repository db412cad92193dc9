// Every figure of a plan, with the formula behind it: what the table for people and the JSON for programs both print.
#pragma once

#include <string>
#include <vector>

#include "planner/run_plan.h"

namespace shoal {

struct PlanLine {
  enum class Unit { kBytes, kSeconds, kShare, kCount, kRate };
  std::string object;  // in JSON; empty: none, the figure is the plan's own
  std::string key;
  std::string label;  // in the table
  double value = 0;
  Unit unit = Unit::kBytes;
  std::string formula;
  std::string path() const { return object.empty() ? key : object + "." + key; }
};

struct PlanSection {
  std::string title;
  std::vector<PlanLine> lines;
  std::vector<std::string> notes;
};

std::vector<PlanSection> plan_sections(const RunPlan& plan);

std::string figure_text(double value, PlanLine::Unit unit);  // "1.2 GiB", "35 s", "12.0 %", "64", "650.1"
std::string duration_text(double seconds);                   // "1.2 ms", "35 s", "2 h 05 min"

}  // namespace shoal
