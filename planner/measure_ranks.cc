#include "planner/measure_ranks.h"

#include <algorithm>
#include <vector>

#include "planner/machine.h"
#include "planner/train_child.h"
#include "trainer/describe.h"

namespace shoal {
namespace {

constexpr unsigned kRanks = 2;
// Of the way from the least RAM to all in RAM: most of what the other rank wants is not there then.
constexpr std::uint64_t kScarce = 8;

struct Communication {
  double cpu_seconds = 0;
  double records_asked_for = 0;
};

Communication communication(const nlohmann::json& summary, double record_bytes) {
  Communication sum;
  for (const nlohmann::json& rank : summary["per_rank"]) {
    sum.cpu_seconds += rank["communication_cpu_seconds"].get<double>();
    sum.records_asked_for += rank["remote"]["requested_bytes"].get<double>() / record_bytes;
  }
  return sum;
}

}  // namespace

MedianRound median_round(const nlohmann::json& summary) {
  std::vector<double> seconds;
  std::vector<double> worker_seconds;
  for (const nlohmann::json& round : summary["metrics"]) {
    seconds.push_back(round["seconds"].get<double>());
    worker_seconds.push_back(round["compute_seconds"].get<double>() + round["mix_seconds"].get<double>());
  }
  std::ranges::sort(seconds);
  std::ranges::sort(worker_seconds);
  return {seconds[seconds.size() / 2], worker_seconds[seconds.size() / 2]};
}

RanksCost measure_ranks(const TrainOptions& options, const MedianRound& alone, const std::filesystem::path& folder) {
  TrainOptions divided = options;
  divided.threads = std::max(1U, options.threads / kRanks);
  DescribedRun describe(divided, kRanks);
  std::uint64_t least = 0;
  std::uint64_t resident = 0;
  double record_bytes = 0;
  for (unsigned rank = 0; rank < kRanks; ++rank) {
    RunChange change;
    change.rank = rank;
    const RunDescription run = describe(change);
    least = std::max(least, run.least_ram_bytes);
    resident = std::max(resident, run.resident_ram_bytes);
    record_bytes = static_cast<double>(run.store.layout.record_bytes(Part::kPublic));
  }
  resident = std::max(least, resident);
  divided.ram_bytes = resident;
  const nlohmann::json roomy = run_shoal_train(divided, folder, kRanks);
  divided.ram_bytes = least + (resident - least) / kScarce;
  const nlohmann::json scarce = run_shoal_train(divided, folder, kRanks);

  RanksCost cost;
  const double cores = Machine::here().cores;
  const auto busy = [&](unsigned threads) { return std::min<double>(cores, threads * options.intra_op); };
  const MedianRound together = median_round(roomy);
  const double share = busy(kRanks * divided.threads) / busy(options.threads);
  cost.slowdown = together.worker_seconds * share / alone.worker_seconds;
  const double beside = (alone.seconds - alone.worker_seconds) / share;  // that one rank has as well
  cost.meeting_seconds = std::max(0.0, together.seconds - together.worker_seconds - beside);
  const Communication few = communication(roomy, record_bytes);
  const Communication many = communication(scarce, record_bytes);
  // What the threads do in any case, meeting at the end of rounds, is in their meeting.
  if (many.records_asked_for > 0) {
    cost.request_cpu_seconds = std::max(0.0, many.cpu_seconds - few.cpu_seconds) / many.records_asked_for;
  }
  return cost;
}

}  // namespace shoal
