#include "store/checkpoint_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "store/error.h"
#include "store/record.h"
#include "store/slab.h"
#include "store/state_store.h"
#include "store/store_files.h"

namespace shoal {

// The manifest first: without one there is no store, and nothing to lock. It is written once, so it may be read
// unlocked.
CheckpointReader::ClosedStore::ClosedStore(const StoreOptions& options)
    : directory(options.directory),
      cold_directory(StoreFolders(options).cold),
      manifest(Manifest::read(directory)),
      lock(directory, LockKind::kReader),
      cold({cold_directory, kColdMinimumBytes, ColdAccess::kRead}, budget),
      head(read_checkpoint_head(cold, cold_directory.string())) {
  manifest.require_id(options.id, directory);
  head.require(manifest, directory, cold_directory);
  for (Checkpoint& checkpoint : head.checkpoints) checkpoint.garbage = {};
}

std::vector<CheckpointInfo> CheckpointReader::list(const StoreOptions& options) {
  const ClosedStore closed(options);
  std::vector<CheckpointInfo> infos;
  for (const Checkpoint& checkpoint : closed.head.checkpoints) infos.push_back({checkpoint.epoch, checkpoint.note});
  return infos;
}

CheckpointReader::CheckpointReader(const StoreOptions& options)
    : closed_(options),
      checkpoint_(chosen_checkpoint(closed_.head, options.open_epoch, closed_.directory.string())),
      entries_(read_checkpoint_entries(closed_.cold, nodes(), checkpoint_.epoch, closed_.cold_directory.string())) {
  for (const Part part : kParts) {
    slabs_[index(part)] = std::make_unique<BlockFile>(slab_path(closed_.directory, part), OpenMode::kExisting,
                                                      Caching::kDirect, FileAccess::kReadOnly);
  }
  const std::size_t largest = std::max(record_bytes(Part::kPublic), record_bytes(Part::kPrivate));
  record_.reset(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, largest)));
  if (!record_) throw_errno(fmt::format("allocating a record of {} bytes", largest), ENOMEM);
}

void CheckpointReader::Free::operator()(std::byte* memory) const { std::free(memory); }

Version CheckpointReader::version(NodeId node) const { return entry(node).version; }

void CheckpointReader::read(NodeId node, Part part, std::byte* payload_out) {
  const SlotEntry& found = entry(node);
  const auto where = Location::from_word(found.location[index(part)]);
  const std::uint64_t bytes = layout().payload_bytes(part);
  if (where.is_nowhere()) {
    throw Error(
        fmt::format("node {} has never been created in checkpoint {} of {}", node, epoch(), closed_.directory.string()),
        ExitCode::kUsage);
  }
  if (where.is_zero()) {
    std::memset(payload_out, 0, bytes);
    return;
  }
  if (where.is_slab()) {
    read_slot(part, where.slot());
  } else {
    closed_.cold.get(where.stamp(), part, node, {record_.get(), record_bytes(part)});
  }
  const std::string wrong =
      defect(record_.get(), {part, node, found.version}, record_bytes(part), closed_.manifest.store_id);
  if (!wrong.empty()) {
    const std::string from = where.is_slab()
                                 ? fmt::format("file {}, slot {}", slabs_[index(part)]->path().string(), where.slot())
                                 : fmt::format("cold tier {}", closed_.cold_directory.string());
    throw Error(
        fmt::format("the {} record of node {} is damaged: {}: {}. Check the device, and start again from a copy "
                    "of the store",
                    name(part), node, from, wrong));
  }
  std::memcpy(payload_out, payload(record_.get()), bytes);
}

void CheckpointReader::read_slot(Part part, Slot slot) {
  const BlockFile& file = *slabs_[index(part)];
  IoRequest request;
  request.offset = slot * record_bytes(part);
  request.data = record_.get();
  request.length = static_cast<std::uint32_t>(record_bytes(part));
  const std::int64_t result = transfer(file.fd(), request);
  if (result < 0) {
    throw_io_error("reading", file.path(), request.offset, request.length, static_cast<int>(-result));
  }
}

std::uint64_t CheckpointReader::memory_bytes() const {
  return kColdMinimumBytes + entries_.size() * sizeof(SlotEntry) +
         std::max(record_bytes(Part::kPublic), record_bytes(Part::kPrivate));
}

const SlotEntry& CheckpointReader::entry(NodeId node) const {
  if (node >= nodes()) {
    throw Error(fmt::format("there is no node {}; the store has {}", node, nodes()), ExitCode::kUsage);
  }
  return entries_[node];
}

}  // namespace shoal
