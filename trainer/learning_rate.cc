#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <string_view>

#include "store/error.h"
#include "trainer/optimizer.h"

namespace shoal {
namespace {

[[noreturn]] void refuse() {
  throw Error(
      "a learning-rate schedule is constant, step:EVERY:FACTOR (for example step:30:0.1: a tenth after every 30 "
      "rounds) or cosine",
      ExitCode::kUsage);
}

template <class Number>
bool parse_whole(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

LearningRate::LearningRate(const std::string& schedule, double base, std::uint64_t warmup, std::uint64_t rounds)
    : base_(base), warmup_(warmup), rounds_(rounds) {
  constexpr std::string_view kStepPrefix = "step:";
  if (schedule == "constant") {
    kind_ = Kind::kConstant;
  } else if (schedule == "cosine") {
    kind_ = Kind::kCosine;
  } else if (schedule.starts_with(kStepPrefix)) {
    kind_ = Kind::kStep;
    const std::string_view rest = std::string_view(schedule).substr(kStepPrefix.size());
    const std::size_t colon = rest.find(':');
    if (colon == std::string_view::npos || !parse_whole(rest.substr(0, colon), every_) ||
        !parse_whole(rest.substr(colon + 1), factor_) || every_ == 0 || !(factor_ >= 0) || !std::isfinite(factor_)) {
      refuse();
    }
  } else {
    refuse();
  }
}

double LearningRate::at(std::uint64_t round) const {
  // The first round already learns: it has 1/warmup of the base.
  if (round < warmup_) return base_ * static_cast<double>(round + 1) / static_cast<double>(warmup_);
  const std::uint64_t after = round - warmup_;
  switch (kind_) {
    case Kind::kConstant: return base_;
    case Kind::kStep: return base_ * std::pow(factor_, static_cast<double>(after / every_));
    case Kind::kCosine: break;
  }
  // Zero comes in the last round; where that is also the first after the warm-up, it keeps the base.
  if (rounds_ <= warmup_ + 1) return base_;
  const double part = static_cast<double>(after) / static_cast<double>(rounds_ - warmup_ - 1);
  return base_ / 2 * (1 + std::cos(std::numbers::pi * std::min(part, 1.0)));
}

}  // namespace shoal
