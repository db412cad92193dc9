#include "trainer/run_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace shoal {
namespace {

double seconds(RunSpeed::Time from, RunSpeed::Time to) { return std::chrono::duration<double>(to - from).count(); }

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole % 3600 / 60);
}

}  // namespace

RunSpeed::RunSpeed(std::string unit, std::uint64_t rounds, Time now)
    : unit_(std::move(unit)), rounds_(rounds), start_(now) {}

void RunSpeed::begin_round(std::uint64_t own_steps, std::uint64_t all_steps, Time now) {
  stepping_ = in_round_ = true;
  own_planned_ = own_steps;
  all_planned_ = all_steps;
  round_start_ = now;
}

void RunSpeed::end_steps(std::uint64_t all_steps, double seconds) {
  steps_ += all_steps;
  seconds_ += seconds;
  stepping_ = false;
}

void RunSpeed::end_round() {
  ++rounds_done_;
  in_round_ = false;
}

double RunSpeed::part_of_round(std::uint64_t own_done) const {
  if (!in_round_) return 0;
  if (!stepping_) return 1;
  if (own_planned_ == 0) return 0;
  return std::min(1.0, static_cast<double>(own_done) / static_cast<double>(own_planned_));
}

double RunSpeed::done(std::uint64_t own_done) const {
  if (rounds_ == 0) return 1;
  return (static_cast<double>(rounds_done_) + part_of_round(own_done)) / static_cast<double>(rounds_);
}

std::string RunSpeed::text(std::uint64_t own_done, Time now) const {
  auto steps = static_cast<double>(steps_);
  double time = seconds_;
  if (stepping_) {
    steps += part_of_round(own_done) * static_cast<double>(all_planned_);
    time += seconds(round_start_, now);
  }
  std::string text;
  if (steps > 0 && time > 0) text = fmt::format("{:.1f} {}/s", steps / time, unit_);
  const double share = done(own_done);
  if (share > 0) {
    const double left = seconds(start_, now) / share * (1 - share);
    text += fmt::format("{}{} left", text.empty() ? "" : ", ", duration_text(left));
  }
  return text;
}

}  // namespace shoal
