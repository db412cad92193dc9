#include "trainer/requirements.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "pipeline/trace_file.h"
#include "store/error.h"
#include "store/size_text.h"
#include "store/use_index.h"
#include "trainer/population.h"

namespace shoal {
namespace {

// Records of a rank that others may be reading at once because they were not in RAM.
constexpr unsigned kServingFrames = 4;

// That will be kept at some time: the one that is taken up, and those that the run makes.
std::uint64_t checkpoints_of(const TrainOptions& options) {
  const std::uint64_t every = options.checkpoint_every;
  return (options.resume ? 1 : 0) + (every > 0 ? (options.rounds + every - 1) / every : 0);
}

}  // namespace

ShareSize::ShareSize(const Experiment& experiment, const Share& share)
    : whole(share.whole()), nodes(share.nodes()), guests(share.guests()), reads(share.reads()), bytes(share.bytes()) {
  // How many old versions a round keeps alive at once is known from its plan, where rounds do not differ.
  if (!experiment.algorithm->all_act()) return;
  const auto plan = share.translate(experiment.algorithm->plan(0)).accesses;
  old_versions = UseIndex(plan, nodes, guests).extra_versions();
}

Requirements::Requirements(const Experiment& experiment, const ShareSize& share, const StorePlace& place) {
  const TrainOptions& options = experiment.options;
  const NodeLayout& layout = *experiment.layout;
  Algorithm& algorithm = *experiment.algorithm;
  const std::uint64_t flat = layout.flat_size() * sizeof(float);
  records = share.nodes;
  state_bytes_per_node = layout.state().state_bytes();

  const auto takes = [&](const char* what, std::uint64_t bytes) {
    if (bytes == 0) return;
    trainer.emplace_back(what, bytes);
    trainer_bytes += bytes;
  };
  takes("network", experiment.graph().bytes() + experiment.order.size() * sizeof(NodeId));
  const std::uint64_t all_records = algorithm.records();
  takes("schedule", AccessPlan::bytes_for(all_records, algorithm.max_reads_per_round()) + all_records * 16);
  // While ranks add up, there are the numbers that go and the MPI library's that come.
  const std::uint64_t sums = layout.flat_size() * sizeof(std::int64_t);
  if (!share.whole) {
    takes("ranks", share.bytes + NeighbourReads::bytes_for(share.guests, all_records - share.nodes) +
                       ArenaWindow::mapped_share(0) + Population::bytes_for(layout.flat_size()) + 2 * sums);
  } else if (experiment.team.size > 1) {
    takes("ranks", sums);
  }
  takes("data",
        (experiment.data ? experiment.data->bytes() : 0) + (experiment.partition ? experiment.partition->bytes() : 0));
  const DataSetShape shape = experiment.model->needs_data() ? data_set_shape(options.data) : DataSetShape{};
  const std::uint64_t batch = options.batch * (shape.image.pixels() * sizeof(float) + 8);
  takes("workers", options.threads * (algorithm.vectors_per_worker() * flat + batch + layout.buffers_bytes()));
  takes("algorithm", algorithm.own_bytes(layout));
  // A gradient and a batch once more, in pinned memory, which comes in powers of two.
  takes("device", options.device.starts_with("cuda") ? options.threads * 2 * (flat + batch) : 0);
  takes("metrics", Population::bytes_for(layout.flat_size()) + 2 * layout.state().payload_bytes(Part::kPublic) +
                       all_records * 24 + options.eval_nodes * layout.buffers_bytes());
  takes("trace", options.trace ? Trace::bytes(experiment.team.size) + TraceFile::kBytes : 0);

  store.directory = place.store;
  store.cold_directory = place.cold;
  store.layout = layout.state();
  store.nodes = share.nodes;
  store.max_reads_per_step = std::max<std::size_t>(1, algorithm.max_reads());
  const std::uint64_t reads =
      share.whole ? algorithm.max_reads_per_round() : std::min(share.reads, algorithm.max_reads_per_round());
  store.max_reads_per_round = std::max<std::uint64_t>(records, reads);
  if (!share.whole) {
    store.guests = share.guests;
    store.serving_frames = kServingFrames;
  }
  store.io = options.store_io;
  store.workers = options.threads;
  store.warm_bytes = options.warm_bytes;
  store.overwrite = options.overwrite;
  least_ram_bytes = trainer_bytes + MemoryPlan::minimum(store);
  slot_use.checkpoints = checkpoints_of(options);
  slot_use.in_place = uses_in_place(store);
  mapped_bytes = share.whole ? 0 : ArenaWindow::mapped_share(0);
  store.old_versions = share.old_versions;
  resident_ram_bytes = least_resident();
  give_ram(options.ram_bytes);
}

// With more RAM, a little more of it keeps other ranks' memory mapped: up to the first number that has room for both.
std::uint64_t Requirements::least_resident() const {
  Requirements tried = *this;
  const std::uint64_t resident = MemoryPlan::resident_ram(store);
  do {
    tried.ram_bytes = tried.trainer_bytes + resident;
    tried.map_ranks();
  } while (tried.ram_bytes < tried.trainer_bytes + resident);
  return tried.ram_bytes;
}

// What is beyond the least also keeps other ranks' pages mapped.
void Requirements::map_ranks() {
  if (const std::uint64_t more = std::exchange(more_mapped_bytes, 0); more > 0) {
    mapped_bytes -= more;
    trainer_bytes -= more;
    trainer.pop_back();
  }
  if (ram_bytes >= least_ram_bytes && mapped_bytes > 0) {
    more_mapped_bytes =
        std::min(ArenaWindow::mapped_share(ram_bytes) - mapped_bytes, (ram_bytes - least_ram_bytes) / 4);
    mapped_bytes += more_mapped_bytes;
    trainer_bytes += more_mapped_bytes;
    if (more_mapped_bytes > 0) trainer.emplace_back("mapped ranks", more_mapped_bytes);
  }
}

void Requirements::give_ram(std::uint64_t bytes) {
  ram_bytes = bytes;
  map_ranks();
  store.ram_bytes = ram_bytes > trainer_bytes ? ram_bytes - trainer_bytes : 0;
  if (ram_bytes < least_ram_bytes) return;

  const MemoryPlan memory = MemoryPlan::for_options(store);
  slot_use.in_ram = memory.resident;
  disk = most_disk(store, slot_use);
  SlotUse stopped = slot_use;
  stopped.checkpoints = std::max<std::uint64_t>(1, stopped.checkpoints);
  stop_disk = most_disk(store, stopped);
}

void Requirements::check_ram() const {
  if (ram_bytes >= least_ram_bytes) return;
  std::string parts;
  for (const auto& [what, bytes] : trainer) parts += fmt::format("{} {}, ", what, size_text(bytes));
  throw Error(
      fmt::format("--ram {} is too little: this run needs at least {} ({} bytes): {}store {}", size_text(ram_bytes),
                  size_text(least_ram_bytes), least_ram_bytes, parts, size_text(least_ram_bytes - trainer_bytes)),
      ExitCode::kUsage);
}

std::string Requirements::text(const Experiment& experiment) const {
  const TrainOptions& options = experiment.options;
  const StateLayout& layout = experiment.layout->state();
  std::string text =
      fmt::format("{} nodes, {} ({} parameters), {} with {}, {} rounds\n", options.nodes, options.model,
                  experiment.model->parameter_count(), options.algorithm, options.optimizer.name, options.rounds);
  text += fmt::format("  record     {} a node: public {}, private {}; {} in all{}\n", size_text(state_bytes_per_node),
                      size_text(layout.record_bytes(Part::kPublic)), size_text(layout.record_bytes(Part::kPrivate)),
                      size_text(experiment.algorithm->records() * state_bytes_per_node),
                      experiment.algorithm->records() == options.nodes ? "" : " (one record for all nodes)");
  text += fmt::format(
      "  disk       up to {} in {}{}{}{}\n", size_text(disk.store), store.directory.string(),
      store.cold_directory.empty() ? fmt::format(", {} in its cold tier", size_text(disk.cold))
                                   : fmt::format(", {} in {}", size_text(disk.cold), store.cold_directory.string()),
      slot_use.in_ram && !slot_use.in_place ? " (rounds touch no disk)" : "",
      stop_disk.store > disk.store ? fmt::format("; with SIGTERM's checkpoint {}", size_text(stop_disk.total())) : "");
  text += fmt::format("  RAM        {}, at least {}; LibTorch's own comes on top\n", size_text(ram_bytes),
                      size_text(least_ram_bytes));
  if (ram_bytes >= least_ram_bytes) {
    const MemoryPlan plan = MemoryPlan::for_options(store);
    text += fmt::format("             arena {}, tables {}, plans {}, RocksDB {}, I/O {}", size_text(plan.arena),
                        size_text(plan.tables), size_text(plan.plans), size_text(plan.cold), size_text(plan.io));
    for (const auto& [what, bytes] : trainer) text += fmt::format(", {} {}", what, size_text(bytes));
    text += "\n";
  }
  return text;
}

nlohmann::json Requirements::json() const {
  nlohmann::json memory = nlohmann::json::object();
  for (const auto& [what, bytes] : trainer) memory[what] = bytes;
  return memory;
}

}  // namespace shoal
