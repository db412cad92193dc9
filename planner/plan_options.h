// shoal-plan's flags: the planner's own, and all of shoal-train's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "planner/machine.h"
#include "planner/profile.h"
#include "planner/sweep.h"
#include "trainer/train_options.h"

namespace shoal {

struct PlanOptions {
  enum class Action { kPlan, kSweep, kVerify, kCompareNaive, kCalibrate };
  Action action = Action::kPlan;
  TrainOptions run;
  Machine machine;
  std::filesystem::path profile = kDefaultProfile;
  bool profile_given = false;
  std::optional<SweepRange> sweep;
  std::optional<std::filesystem::path> csv;
  std::filesystem::path directory;  // calibrate
  bool explain = false;
  bool json = false;
};

struct PlanCommand {
  PlanOptions options;
  std::optional<std::string> print;  // --help, --version, --print-config: print this and do nothing else
};

// Throws a usage Error for anything that is not understood.
PlanCommand parse_plan_command(int argc, const char* const* argv);

}  // namespace shoal
