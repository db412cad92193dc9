#include "planner/calibrate.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>

#include "planner/measure_gets.h"
#include "planner/measure_ranks.h"
#include "planner/train_child.h"
#include "store/error.h"
#include "store/memory_plan.h"
#include "store/state_store.h"
#include "trainer/describe.h"

namespace shoal {
namespace {

// More than devices take into caches of their own before writing slows down.
constexpr std::uint64_t kMeasuredBytes = std::uint64_t{2} << 30;
constexpr std::uint64_t kLargeRecord = 4 << 20;
constexpr std::uint64_t kBeyondCaches = 256 << 20;
constexpr int kRepeats = 3;
// Few enough for records of any size to be made in seconds.
constexpr std::uint64_t kMostNodes = 8192;
// Of the way from the least RAM to all in RAM: nearly everything moves then.
constexpr std::uint64_t kScarce = 8;

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::shared_ptr<const AccessPlan> over_all(StepKind kind, NodeId nodes) {
  auto plan = std::make_shared<AccessPlan>();
  for (NodeId node = 0; node < nodes; ++node) plan->add(kind, node);
  return plan;
}

// A round whose workers do nothing but leave something to write.
RoundReport stream(StateStore& store, StepKind kind) {
  store.plan(over_all(kind, store.nodes()));
  store.begin_round(
      [kind](NodeLease lease) {
        if (kind != StepKind::kCreate) {
          // Asked for, and so checked, as in a run.
          SHOAL_CHECK(lease.current() != nullptr && lease.private_state() != nullptr);
        }
        if (writes(kind)) {
          std::memset(lease.next(), 1, 64);
          std::memset(lease.private_state(), 1, 1);
        }
        lease.commit();
      },
      nullptr);
  return store.end_round();
}

// The user's run with few nodes, all in RAM: its time is the workers' time.
TrainOptions in_ram(TrainOptions options, const StateLayout& layout) {
  const std::uint64_t record = layout.record_bytes(Part::kPublic);
  const bool large = record > kLargeRecord;
  options.algorithm = "dpsgd";
  options.graph = large ? "ring" : "random-regular:8";
  // Neighbours are to come from memory, as in a large run, and not from the processor's caches.
  const auto beyond_caches = static_cast<NodeId>(std::min<std::uint64_t>(kBeyondCaches / record, 1024)) / 2 * 2;
  options.nodes = large ? std::max(4U, 2 * options.threads) : std::max(64 * options.threads, beyond_caches);
  options.rounds = large ? 3 : 5;
  options.eval_nodes = 0;
  options.partition = "shared";
  options.checkpoint_every = 0;
  options.local_steps = std::max(1U, options.local_steps);
  DescribedRun describe(options);
  options.ram_bytes = describe({}).resident_ram_bytes;
  return options;
}

// The same with more nodes than RAM and hardly anything to compute: its time is the disk's, with the run's own mix of
// reads and writes, read-ahead and threads.
TrainOptions out_of_core(TrainOptions options, const StateLayout& layout) {
  const std::uint64_t nodes = std::min(kMeasuredBytes / layout.state_bytes(), kMostNodes) / 2 * 2;
  options.nodes = std::max(options.nodes, static_cast<NodeId>(nodes));
  options.rounds = 3;
  options.batch = 1;
  options.local_steps = 1;
  DescribedRun describe(options);
  const RunDescription run = describe({});
  options.ram_bytes = run.least_ram_bytes + (run.resident_ram_bytes - run.least_ram_bytes) / kScarce;
  return options;
}

// Bytes a second, of each round but the first, which finds private records that are zeros.
void add_disk_rates(std::vector<double>& rates, const TrainOptions& options, const std::filesystem::path& folder) {
  const nlohmann::json summary = run_shoal_train(options, folder);
  for (const nlohmann::json& round : summary["metrics"]) {
    const double moved = round["bytes_read"].get<double>() + round["bytes_written"].get<double>();
    if (round["round"] > 0) rates.push_back(moved / round["seconds"].get<double>());
  }
}

}  // namespace

DiskSpeed measure_disk(const StateLayout& layout, IoEngine io, const std::filesystem::path& folder) {
  StoreOptions options;
  options.directory = folder / "disk";
  options.layout = layout;
  options.nodes = static_cast<NodeId>(std::max<std::uint64_t>(16, kMeasuredBytes / layout.state_bytes()));
  options.io = io;
  options.max_reads_per_step = 1;
  // As little RAM as keeps the device's queue full, and a small part of the records in any case.
  options.ram_bytes =
      MemoryPlan::minimum(options) + std::min<std::uint64_t>(16, options.nodes / 4) * layout.state_bytes();
  const std::unique_ptr<StateStore> store = StateStore::create(options);
  stream(*store, StepKind::kCreate);
  stream(*store, StepKind::kUpdate);  // the first one finds private records that are zeros, and not on disk
  DiskSpeed speed;
  std::vector<double> read;
  std::vector<double> write;
  std::vector<double> cpu;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const double before = cpu_seconds();
    const RoundReport both = stream(*store, StepKind::kUpdate);
    cpu.push_back((cpu_seconds() - before) / static_cast<double>(both.slab_bytes_read + both.slab_bytes_written));
    stream(*store, StepKind::kInspect);  // also writes what the round before left in RAM
    const RoundReport only = stream(*store, StepKind::kInspect);
    SHOAL_CHECK(only.slab_bytes_read > 0);
    const double read_speed = static_cast<double>(only.slab_bytes_read) / only.seconds;
    const double reading = static_cast<double>(both.slab_bytes_read) / read_speed;
    // Where the device takes both directions at once, writing may seem to take no time.
    const double writing = std::max(both.seconds - reading, both.seconds / 4);
    read.push_back(read_speed);
    write.push_back(static_cast<double>(both.slab_bytes_written) / writing);
  }
  speed.read_bytes_per_second = median(read);
  speed.write_bytes_per_second = median(write);
  speed.cpu_seconds_per_byte = median(cpu);
  return speed;
}

Profile calibrate(const TrainOptions& options, const std::filesystem::path& folder) {
  TrainOptions few = options;
  few.nodes = 4;
  few.graph = "ring";
  DescribedRun describe(few);
  const RunDescription run = describe({});
  const StateLayout& layout = run.store.layout;
  Profile profile;
  profile.model = run.model;
  profile.optimizer = run.optimizer;
  profile.device = run.device;
  profile.batch = run.batch;
  profile.public_record_bytes = layout.record_bytes(Part::kPublic);
  profile.private_record_bytes = layout.record_bytes(Part::kPrivate);
  profile.threads = run.threads;
  profile.intra_op = run.intra_op;

  const ScratchFolder scratch(folder);
  const TrainOptions small = in_ram(options, layout);
  // A disk that others use as well is faster in one minute than in the next: it is asked at the beginning, in the
  // middle and at the end.
  const TrainOptions large = out_of_core(small, layout);
  std::vector<double> disk_rates;
  add_disk_rates(disk_rates, large, scratch.path());
  const DiskSpeed disk = measure_disk(layout, options.store_io, scratch.path());
  profile.read_bytes_per_second = disk.read_bytes_per_second;
  profile.write_bytes_per_second = disk.write_bytes_per_second;
  profile.store_cpu_seconds_per_byte = disk.cpu_seconds_per_byte;
  const GetSpeed gets = measure_gets(profile.public_record_bytes, scratch.path());
  profile.mapped_bytes_per_second = gets.mapped_bytes_per_second;
  profile.get_bytes_per_second = gets.one_sided_bytes_per_second;

  const nlohmann::json summary = run_shoal_train(small, scratch.path());
  // Of a round in the middle: first rounds touch memory for the first time, and any may be disturbed.
  const auto of_a_round = [&](const char* key) {
    std::vector<double> values;
    for (const nlohmann::json& round : summary["metrics"]) values.push_back(round[key].get<double>());
    return median(values);
  };
  const double threads = summary["threads"].get<double>();
  const double nodes = summary["nodes"].get<double>();
  profile.step_seconds = of_a_round("compute_seconds") * threads / of_a_round("node_steps");
  const double others = of_a_round("seconds") - of_a_round("compute_seconds") - of_a_round("mix_seconds");
  profile.node_seconds = std::max(0.0, others) * threads / nodes;
  const double inputs = nodes * (1 + summary["graph"]["degree_mean"].get<double>());
  profile.mix_bytes_per_second =
      inputs * static_cast<double>(run.flat_bytes) / std::max(1e-9, of_a_round("mix_seconds") * threads);

  add_disk_rates(disk_rates, large, scratch.path());
  const RanksCost ranks = measure_ranks(small, median_round(summary), scratch.path());
  profile.ranks_slowdown = ranks.slowdown;
  profile.meeting_seconds = ranks.meeting_seconds;
  const double copy = static_cast<double>(profile.public_record_bytes) / profile.mapped_bytes_per_second;
  profile.request_cpu_seconds = std::max(ranks.request_cpu_seconds, copy);
  add_disk_rates(disk_rates, large, scratch.path());
  profile.disk_bytes_per_second = median(disk_rates);
  return profile;
}

}  // namespace shoal
