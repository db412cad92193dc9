#include "trainer/requirements.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "store/error.h"
#include "store/size_text.h"
#include "store/use_index.h"
#include "trainer/population.h"

namespace shoal {
namespace {

// RocksDB's files (tables of the last checkpoints, its log), the manifest, and what the results take.
constexpr std::uint64_t kMetadataBytes = 32 << 20;

// Records of a rank that others may be reading at once because they were not in RAM.
constexpr unsigned kServingFrames = 4;

// So that a table that grows with the arena, rounded, cannot take a frame away.
constexpr std::uint64_t kSpareBytes = 4 << 20;

// The nearest folder that exists.
std::filesystem::path existing(std::filesystem::path path) {
  path = std::filesystem::absolute(path);
  while (!std::filesystem::exists(path) && path.has_parent_path() && path != path.parent_path()) {
    path = path.parent_path();
  }
  return path;
}

}  // namespace

Requirements::Requirements(const Experiment& experiment, const Share& share, const StorePlace& place) {
  const TrainOptions& options = experiment.options;
  const NodeLayout& layout = *experiment.layout;
  Algorithm& algorithm = *experiment.algorithm;
  const std::uint64_t flat = layout.flat_size() * sizeof(float);
  records = share.nodes();
  state_bytes_per_node = layout.state().state_bytes();
  ram_bytes = options.ram_bytes;

  const auto takes = [&](const char* what, std::uint64_t bytes) {
    if (bytes == 0) return;
    trainer.emplace_back(what, bytes);
    trainer_bytes += bytes;
  };
  takes("network", experiment.graph().bytes() + experiment.order.size() * sizeof(NodeId));
  const std::uint64_t all_records = algorithm.records();
  takes("schedule", AccessPlan::bytes_for(all_records, algorithm.max_reads_per_round()) + all_records * 16);
  takes("ranks", share.whole() ? 0
                               : share.bytes() + NeighbourReads::bytes_for(share.guests()) +
                                     ArenaWindow::mapped_share(0) + Population::bytes_for(layout.flat_size()));
  takes("data",
        (experiment.data ? experiment.data->bytes() : 0) + (experiment.partition ? experiment.partition->bytes() : 0));
  const DataSetShape shape = experiment.model->needs_data() ? data_set_shape(options.data) : DataSetShape{};
  const std::uint64_t batch = options.batch * (shape.image.pixels() * sizeof(float) + 8);
  takes("workers", options.threads * (algorithm.vectors_per_worker() * flat + batch));
  // A gradient and a batch once more, in pinned memory, which comes in powers of two.
  takes("device", options.device.starts_with("cuda") ? options.threads * 2 * (flat + batch) : 0);
  takes("metrics", Population::bytes_for(layout.flat_size()) + 2 * layout.state().payload_bytes(Part::kPublic) +
                       all_records * 24 + options.eval_nodes * layout.buffers_bytes());
  takes("trace", options.trace ? std::uint64_t{40} << 19 : 0);

  store.directory = place.store;
  store.cold_directory = place.cold;
  store.layout = layout.state();
  store.nodes = share.nodes();
  store.max_reads_per_step = std::max<std::size_t>(1, algorithm.max_reads());
  const std::uint64_t reads =
      share.whole() ? algorithm.max_reads_per_round() : std::min(share.reads(), algorithm.max_reads_per_round());
  store.max_reads_per_round = std::max<std::uint64_t>(records, reads);
  if (!share.whole()) {
    store.guests = share.guests();
    store.serving_frames = kServingFrames;
  }
  store.io = options.store_io;
  store.workers = options.threads;
  store.warm_bytes = options.warm_bytes;
  store.overwrite = options.overwrite;
  store.ram_bytes = ram_bytes > trainer_bytes ? ram_bytes - trainer_bytes : 0;
  least_ram_bytes = trainer_bytes + MemoryPlan::minimum(store);
  if (ram_bytes < least_ram_bytes) return;
  if (!share.whole()) {
    // What is beyond the least also keeps other ranks' pages mapped.
    mapped_bytes = ArenaWindow::mapped_share(0);
    const std::uint64_t more =
        std::min(ArenaWindow::mapped_share(ram_bytes) - mapped_bytes, (ram_bytes - least_ram_bytes) / 4);
    mapped_bytes += more;
    store.ram_bytes -= more;
    takes("mapped ranks", more);
  }

  // How many old versions a round keeps alive at once is known from its plan; where rounds differ, all may be.
  std::uint64_t extra_versions = records + store.guests;
  if (algorithm.all_act()) {
    const auto plan = share.translate(algorithm.plan(0)).accesses;
    extra_versions = UseIndex(plan, store.nodes, store.guests).extra_versions();
  }
  const MemoryPlan memory = MemoryPlan::for_options(store);
  const std::uint64_t publics = records + extra_versions + memory.flights + memory.serving + 16;
  const std::uint64_t privates = records + memory.flights;
  const std::uint64_t public_bytes = layout.state().record_bytes(Part::kPublic);
  const std::uint64_t private_bytes = layout.state().record_bytes(Part::kPrivate);
  const std::uint64_t whole = publics * public_bytes + privates * private_bytes;
  in_ram = whole <= memory.arena;
  // More than all of it is of no use, and page-locking it would take its time.
  if (in_ram) store.ram_bytes = std::min(store.ram_bytes, memory.total() - memory.arena + whole + kSpareBytes);
  disk_bytes = kMetadataBytes;
  if (!in_ram) disk_bytes += publics * public_bytes + records * private_bytes;
  if (options.checkpoint_every > 0) disk_bytes += records * (public_bytes + private_bytes);
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

void Requirements::check_disk() const {
  const std::filesystem::path folder = existing(store.directory);
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (error) throw Error(fmt::format("--store {}: {}", store.directory.string(), error.message()));
  // A run that is resumed or overwritten already has its files.
  std::uint64_t has = 0;
  for (const char* file : {"public.slab", "private.slab"}) {
    const auto size = std::filesystem::file_size(store.directory / file, error);
    if (!error) has += size;
  }
  const std::uint64_t wanted = std::min(disk_bytes, store.warm_bytes);
  if (wanted <= space.available + has) return;
  throw Error(
      fmt::format("--store {}: the run needs up to {} of disk and {} is free there, {} too little; use fewer "
                  "nodes, another disk, --warm-bytes with a --cold folder elsewhere, or no checkpoints",
                  store.directory.string(), size_text(wanted), size_text(space.available + has),
                  size_text(wanted - space.available - has)));
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
  text += fmt::format("  disk       up to {} in {}{}\n", size_text(disk_bytes), store.directory.string(),
                      in_ram ? " (rounds touch no disk)" : "");
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
