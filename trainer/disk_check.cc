#include "trainer/disk_check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>

#include "planner/run_plan.h"
#include "store/error.h"
#include "store/size_text.h"
#include "trainer/describe.h"

namespace shoal {
namespace {

using nlohmann::json;

// What goes to --out: a line per round, one per node, the page.
std::uint64_t results_bytes(const TrainOptions& options) {
  return (4 << 20) + options.rounds * 4096 + options.nodes * std::uint64_t{64};
}

// Every rank's shares, on every rank.
std::vector<DiskShare> shares_of_all(const std::vector<DiskShare>& own, Communicator& ranks) {
  json list = json::array();
  for (const DiskShare& share : own) {
    list.push_back(
        {share.host, share.folder, share.file_system, share.free_bytes, share.there_bytes, share.needed_bytes});
  }
  const std::string text = list.dump();
  std::vector<DiskShare> all;
  for (const auto& bytes : ranks.gather_everywhere(std::as_bytes(std::span(text)))) {
    const auto* const begin = reinterpret_cast<const char*>(bytes.data());
    for (const json& each : json::parse(begin, begin + bytes.size())) {
      all.push_back({each[0], each[1], each[2], each[3], each[4], each[5]});
    }
  }
  return all;
}

// Disks that are too small, added up over all ranks.
std::vector<SharedDisk> shortages(const RankDisk& disk, const DiskNeed& need, const TrainOptions& options,
                                  Communicator& ranks) {
  std::vector<DiskShare> own = disk.with(need);
  if (ranks.first()) {
    own.push_back(share_of_disk(options.out, ranks.host()));
    own.back().needed_bytes = results_bytes(options);
  }
  std::vector<SharedDisk> too_small;
  for (const SharedDisk& each : add_up(shares_of_all(own, ranks))) {
    if (!each.fits()) too_small.push_back(each);
  }
  return too_small;
}

// Public records are on disk or in RAM; private ones may be zeros.
DiskNeed least_disk(const Requirements& requirements) {
  const StoreOptions& store = requirements.store;
  const std::uint64_t bytes = requirements.records * store.layout.record_bytes(Part::kPublic);
  DiskNeed need;
  need.store = std::min(bytes - std::min(bytes, store.ram_bytes), store.warm_bytes);
  return need;
}

std::string shortage_text(const SharedDisk& disk) {
  return fmt::format("{} is needed and {} is free there, {} too little{}", size_text(disk.needed_bytes),
                     size_text(disk.available_bytes), size_text(disk.needed_bytes - disk.available_bytes),
                     disk.folders > 3 ? " (ranks that share the disk are added up)" : "");
}

}  // namespace

RankDisk disk_of_rank(const TrainOptions& options, const RankNumbers& rank) {
  const StorePlace place = store_place(options, rank);
  const std::filesystem::path cold = place.cold.empty() ? place.store / "cold" : place.cold;
  RankDisk disk{share_of_disk(place.store, rank.host), share_of_disk(cold, rank.host)};
  if (options.resume || options.overwrite) {
    disk.store.there_bytes = bytes_below(place.store);
    if (!place.cold.empty()) disk.cold.there_bytes = bytes_below(place.cold);
  }
  return disk;
}

std::vector<RankDisk> disks_of_host(const TrainOptions& options, unsigned ranks, unsigned hosts) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::vector<RankDisk> disks;
  for (unsigned rank = 0; rank < (ranks + hosts - 1) / hosts; ++rank) {
    disks.push_back(disk_of_rank(options, {rank, ranks, rank, host.data()}));
  }
  return disks;
}

std::string check_disk(const TrainOptions& options, const Requirements& requirements, Communicator& ranks) {
  const RankDisk disk = disk_of_rank(options, RankNumbers::of(ranks));
  if (shortages(disk, requirements.stop_disk, options, ranks).empty()) return "";
  if (shortages(disk, requirements.disk, options, ranks).empty()) {
    return fmt::format("SIGTERM's checkpoint may not find room: it takes up to {} a rank, and the run {}",
                       size_text(requirements.stop_disk.total()), size_text(requirements.disk.total()));
  }
  // A bound is no proof that it does not fit; what RAM cannot hold is one, and takes no rehearsal.
  std::vector<SharedDisk> too_small = shortages(disk, least_disk(requirements), options, ranks);
  if (too_small.empty()) {
    RunChange rank;
    rank.rank = ranks.rank();
    DescribedRun describe(options, ranks.size(), ranks.hosts());
    const DiskNeed rehearsed = Planner(std::ref(describe), Machine::here(), std::nullopt).disk_need(rank);
    too_small = shortages(disk, rehearsed, options, ranks);
  }
  if (too_small.empty()) return "";
  const SharedDisk& first = too_small.front();
  throw Error(fmt::format(
      "the disk of {} on {} is too small: {}. Use fewer nodes, another disk, --warm-bytes with a --cold folder "
      "elsewhere, or no checkpoints; shoal-plan with the same flags lists what would fit",
      first.folder, first.host, shortage_text(first)));
}

}  // namespace shoal
