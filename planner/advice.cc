#include "planner/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/proposals.h"
#include "store/memory_plan.h"
#include "store/size_text.h"
#include "store/types.h"

namespace shoal {
namespace {

// A loss of speed that nobody would notice.
constexpr double kSameSpeed = 1.02;
constexpr int kSearchSteps = 6;

std::uint64_t rounded_up(std::uint64_t bytes) { return round_up(bytes, std::uint64_t{1} << 20); }

// As a flag wants it: nothing is lost to rounding.
std::string flag_size(std::uint64_t bytes) { return fmt::format("{}MiB", rounded_up(bytes) >> 20); }

// The least RAM whose round takes as long as with RAM for everything; the time only falls with RAM.
std::uint64_t smallest_fast_ram(const Planner& planner, const RunPlan& plan) {
  const auto seconds = [&](std::uint64_t ram) {
    RunChange change;
    change.ram_bytes = ram;
    return planner.plan(change, Effort::kQuick).time->round;
  };
  std::uint64_t low = rounded_up(plan.run.least_ram_bytes);
  std::uint64_t high = std::max(low, rounded_up(plan.run.resident_ram_bytes));
  const double best = seconds(high);
  if (seconds(low) <= best * kSameSpeed) return low;
  for (int i = 0; i < kSearchSteps; ++i) {
    const auto middle =
        rounded_up(static_cast<std::uint64_t>(std::sqrt(static_cast<double>(low) * static_cast<double>(high))));
    if (middle >= high) break;
    (seconds(middle) <= best * kSameSpeed ? high : low) = middle;
  }
  return high;
}

// What the least RAM is made of.
std::string largest_consumer(const RunDescription& run) {
  MemoryLine largest{"the store", MemoryPlan::minimum(run.store),
                     fmt::format("a step holds up to {} records at once", run.store.max_reads_per_step + 3)};
  for (const MemoryLine& line : run.program) {
    if (line.bytes > largest.bytes) largest = line;
  }
  return fmt::format("of the {} that are the least, {} takes {} ({})", size_text(run.least_ram_bytes), largest.what,
                     size_text(largest.bytes), largest.formula);
}

}  // namespace

Advice advise(const Planner& planner, const RunPlan& plan) {
  const RunDescription& run = plan.run;
  const Machine& machine = plan.machine;
  Advice advice;
  advice.most_useful_ram = rounded_up(run.resident_ram_bytes);
  advice.ranks = machine.hosts;
  advice.threads = std::max(1U, machine.cores / run.intra_op);
  if (!run.fits_ram()) {
    advice.lines.push_back(fmt::format("--ram {}: the least that works", flag_size(run.least_ram_bytes)));
    advice.lines.push_back(largest_consumer(run));
  }
  if (plan.time) {
    advice.smallest_fast_ram = smallest_fast_ram(planner, plan);
    advice.lines.push_back(
        fmt::format("--ram {}: the least without loss of speed", flag_size(*advice.smallest_fast_ram)));
  }
  advice.lines.push_back(
      fmt::format("--ram {}: rounds touch no disk; more changes nothing", flag_size(advice.most_useful_ram)));
  const bool as_given = machine.ranks == advice.ranks && (run.threads == advice.threads || run.device != "cpu");
  advice.lines.push_back(fmt::format(
      "{} {} with --threads {}{}: one rank for each host, whose threads share an arena; a thread for each core",
      advice.ranks, advice.ranks == 1 ? "rank" : "ranks", advice.threads, as_given ? ", as given" : ""));
  if (plan.time && plan.time->bottleneck == "disk" && plan.time->disk > kSameSpeed * plan.time->processor()) {
    advice.lines.push_back(
        fmt::format("the disk is the limit: with {:.1f} times its bandwidth, or more --ram, the cores would be",
                    plan.time->disk / plan.time->processor()));
  }
  if (!plan.fits()) {
    for (const Proposal& proposal : proposals(planner, plan)) advice.changes.push_back(proposal.words);
    if (advice.changes.empty()) {
      advice.lines.emplace_back(
          "no single change that was tried makes it fit: more RAM, fewer nodes, a cold tier, ranks");
    }
  }
  return advice;
}

}  // namespace shoal
