#include "planner/disk_plan.h"

#include <algorithm>
#include <cmath>

#include "planner/cold_moves.h"
#include "planner/whole.h"
#include "store/memory_plan.h"
#include "store/slot_table.h"

namespace shoal {
namespace {

// The database keeps the tables of so many checkpoints, in the mean.
constexpr double kMeanTables = 3.5;

// A run's timing moves single records; a sample, some per cent. And a slot is taken while a frame is on its way out.
constexpr double kMoreThanRehearsed = 1.02;
constexpr double kMoreThanSampled = 1.05;
constexpr std::uint64_t kMostOnTheirWay = 64;

}  // namespace

DiskPlan& DiskPlan::operator+=(const DiskPlan& other) {
  warm_bytes += other.warm_bytes;
  cold_bytes += other.cold_bytes;
  end_bytes += other.end_bytes;
  need += other.need;
  return *this;
}

DiskPlan DiskPlan::divided(unsigned ranks) const {
  return {warm_bytes / ranks, cold_bytes / ranks, end_bytes / ranks, {need.store / ranks, need.cold / ranks}};
}

DiskPlan disk_plan(const RunDescription& run, const Residency& residency, Rehearsed how) {
  SlotCounts rehearsed{};
  SlotCounts safe{};
  const std::uint64_t moving = MemoryPlan::for_options(run.store).flights + kMostOnTheirWay;
  for (const Part part : kParts) {
    const double slots = residency.most_slots[index(part)];
    rehearsed[index(part)] = whole(slots);
    const double more = how == Rehearsed::kInFull ? kMoreThanRehearsed : kMoreThanSampled;
    if (slots > 0) safe[index(part)] = whole(std::ceil(slots * more)) + moving;
  }
  const auto table = static_cast<double>(run.records() * sizeof(SlotEntry));
  const double tables = std::min(1 + static_cast<double>(run.slot_use.checkpoints), kMeanTables) * table;
  const double cold = cold_file_bytes(run, residency.total.cold_bytes_written, residency.cold_bytes);
  DiskPlan plan;
  plan.warm_bytes = static_cast<double>(slab_bytes_for(run.store, run.slot_use, rehearsed));
  plan.cold_bytes = cold + tables;
  plan.end_bytes = residency.slab_bytes + plan.cold_bytes;
  const DiskNeed need = disk_for(run.store, run.slot_use, safe, whole(residency.most_cold_bytes * kMoreThanSampled));
  plan.need = {std::min(need.store, run.most_disk.store), std::min(need.cold, run.most_disk.cold)};
  return plan;
}

}  // namespace shoal
