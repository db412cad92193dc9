#include "planner/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "planner/plan_text.h"
#include "planner/whole.h"
#include "store/error.h"
#include "store/size_text.h"

namespace shoal {
namespace {

constexpr std::size_t kPoints = 7;
constexpr std::size_t kPlotWidth = 50;

const char* key(const SweepRange& range) { return range.what == SweepRange::What::kRam ? "ram" : "nodes"; }

std::uint64_t parse_value(SweepRange::What what, std::string_view text) {
  if (what == SweepRange::What::kRam) return parse_size(text);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0 ||
      value >= std::numeric_limits<NodeId>::max()) {
    throw Error(fmt::format("--sweep nodes: '{}' is not a number of nodes", text), ExitCode::kUsage);
  }
  return value;
}

std::string value_text(const SweepRange& range, std::uint64_t value) {
  return range.what == SweepRange::What::kRam ? size_text(value) : std::to_string(value);
}

// What the plot shows: time where it is known, bytes otherwise.
double height(const SweepPoint& point) {
  if (!point.error.empty() || !point.plan.run.fits_ram()) return 0;
  const Traffic& round = point.plan.residency.round;
  return point.plan.time ? point.plan.time->round : round.bytes_read + round.bytes_written;
}

std::string state_of(const SweepPoint& point) {
  if (!point.error.empty()) return point.error;
  std::string state;
  for (const Misfit& misfit : point.plan.misfits) {
    state += fmt::format("{}{} {} too little", state.empty() ? "" : "; ", misfit.what,
                         size_text(misfit.needed - misfit.available));
  }
  return state.empty() ? "fits" : state;
}

}  // namespace

SweepRange parse_sweep(std::string_view text) {
  const auto wrong = [&] {
    return Error(fmt::format("--sweep {}: give ram=FROM..TO (ram=1GiB..64GiB) or nodes=FROM..TO", text),
                 ExitCode::kUsage);
  };
  SweepRange range;
  const std::size_t equals = text.find('=');
  const std::size_t dots = text.find("..");
  if (equals == std::string_view::npos || dots == std::string_view::npos || dots < equals) throw wrong();
  const std::string_view what = text.substr(0, equals);
  if (what != "ram" && what != "nodes") throw wrong();
  range.what = what == "ram" ? SweepRange::What::kRam : SweepRange::What::kNodes;
  const std::uint64_t from = parse_value(range.what, text.substr(equals + 1, dots - equals - 1));
  const std::uint64_t to = parse_value(range.what, text.substr(dots + 2));
  if (from == 0 || to < from) throw wrong();
  const double ratio = static_cast<double>(to) / static_cast<double>(from);
  // Powers of two where they lead from one end to the other, because they are easy to read.
  const double doublings = std::log2(ratio);
  const bool powers = doublings == std::floor(doublings) && doublings >= 1 && doublings <= 10;
  const std::size_t steps = powers ? static_cast<std::size_t>(doublings) : from == to ? 0 : kPoints - 1;
  for (std::size_t i = 0; i < steps; ++i) {
    const double exponent = static_cast<double>(i) / static_cast<double>(steps);
    auto value = static_cast<std::uint64_t>(std::llround(static_cast<double>(from) * std::pow(ratio, exponent)));
    // An odd number has no regular graph of odd degree.
    if (range.what == SweepRange::What::kNodes) value = value / 2 * 2;
    if (i == 0) value = from;
    // Ends that are close to each other have few numbers between them.
    if (range.values.empty() || (value > range.values.back() && value < to)) range.values.push_back(value);
  }
  range.values.push_back(to);
  return range;
}

std::vector<SweepPoint> run_sweep(const Planner& planner, const SweepRange& range) {
  std::vector<SweepPoint> points;
  for (const std::uint64_t value : range.values) {
    RunChange change;
    if (range.what == SweepRange::What::kRam) {
      change.ram_bytes = value;
    } else {
      change.nodes = static_cast<NodeId>(value);
    }
    SweepPoint point;
    point.value = value;
    try {
      point.plan = planner.plan(change, Effort::kQuick);
    } catch (const Error& error) {
      if (error.exit_code() != ExitCode::kUsage) throw;
      point.error = error.what();
    }
    points.push_back(std::move(point));
  }
  return points;
}

std::string sweep_text(const SweepRange& range, const std::vector<SweepPoint>& points) {
  std::string text = fmt::format("{:>10}{:>12}{:>12}{:>12}{:>12}{:>10}{:>12}  {:<9} {}\n", key(range), "peak RSS",
                                 "disk", "read", "written", "in RAM", "round", "limit", "");
  double highest = 0;
  bool timed = false;
  for (const SweepPoint& point : points) {
    highest = std::max(highest, height(point));
    const RunPlan& plan = point.plan;
    if (!point.error.empty() || !plan.run.fits_ram()) {
      text += fmt::format("{:>10}{:>80} {}\n", value_text(range, point.value), "", state_of(point));
      continue;
    }
    timed |= plan.time.has_value();
    const Traffic& round = plan.residency.round;
    text += fmt::format("{:>10}{:>12}{:>12}{:>12}{:>12}{:>10}{:>12}  {:<9} {}\n", value_text(range, point.value),
                        size_text(plan.peak_rss_bytes), size_text(whole(plan.disk.peak_bytes())),
                        size_text(static_cast<std::uint64_t>(round.bytes_read)),
                        size_text(static_cast<std::uint64_t>(round.bytes_written)),
                        fmt::format("{:.1f} %", 100 * round.hit_rate(Part::kPublic)),
                        plan.time ? duration_text(plan.time->round) : "-", plan.time ? plan.time->bottleneck : "-",
                        state_of(point));
  }
  text += fmt::format("\n{} of a round over {}\n", timed ? "time" : "bytes to and from disk", key(range));
  for (const SweepPoint& point : points) {
    const double share = highest > 0 ? height(point) / highest : 0;
    const auto width = static_cast<std::size_t>(std::llround(share * kPlotWidth));
    const auto bytes = static_cast<std::uint64_t>(height(point));
    text += fmt::format("{:>10} |{:<{}} {}\n", value_text(range, point.value), std::string(width, '#'), kPlotWidth,
                        !point.error.empty() || !point.plan.run.fits_ram() ? "does not fit"
                        : timed                                            ? duration_text(height(point))
                                                                           : size_text(bytes));
  }
  return text;
}

std::string sweep_csv(const SweepRange& range, const std::vector<SweepPoint>& points) {
  std::string text = fmt::format(
      "{},fits,peak_rss_bytes,disk_peak_bytes,bytes_read,bytes_written,hit_rate_public,hit_rate_private,round_seconds,"
      "bottleneck\n",
      key(range));
  for (const SweepPoint& point : points) {
    if (!point.error.empty() || !point.plan.run.fits_ram()) {
      text += fmt::format("{},0,,,,,,,,\n", point.value);
      continue;
    }
    const RunPlan& plan = point.plan;
    const Traffic& round = plan.residency.round;
    text +=
        fmt::format("{},{},{},{},{:.0f},{:.0f},{:.4f},{:.4f},{},{}\n", point.value, plan.fits() ? 1 : 0,
                    plan.peak_rss_bytes, whole(plan.disk.peak_bytes()), round.bytes_read, round.bytes_written,
                    round.hit_rate(Part::kPublic), round.hit_rate(Part::kPrivate),
                    plan.time ? fmt::format("{:.6g}", plan.time->round) : "", plan.time ? plan.time->bottleneck : "");
  }
  return text;
}

nlohmann::json sweep_json(const SweepRange& range, const std::vector<SweepPoint>& points) {
  nlohmann::json list = nlohmann::json::array();
  for (const SweepPoint& point : points) {
    nlohmann::json entry = point.error.empty() ? plan_json(point.plan, {}) : nlohmann::json{{"error", point.error}};
    entry.erase("advice");
    entry[key(range)] = point.value;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace shoal
