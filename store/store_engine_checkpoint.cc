// Checkpoints: prepared beside the committed one, committed in its place, taken up again.
#include <fmt/format.h>

#include <utility>

#include "store/error.h"
#include "store/store_engine.h"

namespace shoal {

void StoreEngine::checkpoint(std::string_view note) {
  prepare_checkpoint(note);
  commit_checkpoint();
}

void StoreEngine::prepare_checkpoint(std::string_view note) {
  on_engine([&] {
    require_idle("checkpoint");
    require_committed("another checkpoint");
    count_checkpoint([&] {
      flush_dirty();
      write_checkpoint(note);
    });
  });
}

void StoreEngine::commit_checkpoint() {
  on_engine([&] {
    if (!prepared_) throw Error("no checkpoint is prepared; call prepare_checkpoint() first", ExitCode::kUsage);
    count_checkpoint([&] {
      if (cold_) cold_->commit(checkpoint_values({manifest_.store_id, nodes_, {*prepared_}}));
    });
    // Durable from here on. What only the one before referred to is free.
    committed_ = *std::exchange(prepared_, std::nullopt);
    for (const Part part : kParts) slab(part).drop_previous();
    erase_garbage();
  });
}

std::uint64_t StoreEngine::bytes_written() const { return slab_io_->bytes_written() + cold_bytes_written(); }

void StoreEngine::count_checkpoint(const std::function<void()>& part) {
  const std::uint64_t before = bytes_written();
  part();
  checkpoint_bytes_ += bytes_written() - before;
}

// Every record has a durable place and its bytes are handed to the device; they stay in RAM as well.
void StoreEngine::flush_dirty() {
  settle();
  for (FrameId id = 0; id < cache_->count(); ++id) {
    const Cached& entry = (*cache_)[id];
    if (entry.phase == Phase::kReady && entry.dirty) write_back(id, false);
  }
  settle();
}

// The empty one of a new store.
void StoreEngine::write_first_checkpoint() {
  for (const Part part : kParts) device_->sync(slab(part).file());
  cold_->commit(checkpoint_values({manifest_.store_id, nodes_, {committed_}}, table_->entries()));
}

void StoreEngine::write_checkpoint(std::string_view note) {
  Checkpoint next{committed_.epoch + 1, std::string(note), std::exchange(dead_cold_, {})};
  SHOAL_CHECK(cold_stamp(next.epoch + 1, 1) < Location::kMaxStamp);
  CheckpointHead head{manifest_.store_id, nodes_, {committed_}};
  head.checkpoints.push_back(std::move(next));
  // Data before the table that refers to it. What the committed one made garbage is erased durably by this, too.
  if (cold_) cold_->flush();
  for (const Part part : kParts) device_->sync(slab(part).file());
  if (cold_) cold_->commit(checkpoint_values(head, table_->entries()));
  prepared_ = std::move(head.checkpoints.back());
  for (const Part part : kParts) slab(part).retain_live();
}

void StoreEngine::restore_checkpoint() {
  const CheckpointHead head = read_checkpoint_head(*cold_, cold_directory_.string());
  head.require(manifest_, options_.directory, cold_directory_);
  committed_ = chosen_checkpoint(head, options_.open_epoch, options_.directory.string());
  const std::vector<SlotEntry> entries =
      read_checkpoint_entries(*cold_, nodes_, committed_.epoch, cold_directory_.string());
  for (NodeId node = 0; node < nodes_; ++node) {
    table_->set_entry(node, entries[node]);
    for (const Part part : kParts) {
      const Location where = table_->location(part, node);
      if (where.is_slab()) slab(part).adopt(where.slot());
    }
  }
  for (const Part part : kParts) slab(part).adopt_rest();
  // The other one goes before anything that it refers to is written over.
  if (head.checkpoints.size() > 1) cold_->commit(checkpoint_values({manifest_.store_id, nodes_, {committed_}}));
  // What the interrupted run left in the cold tier, and what the checkpoint had not got round to erasing.
  cold_->erase_epochs_after(cold_stamp(committed_.epoch, 1));
  erase_garbage();
}

void StoreEngine::erase_garbage() {
  for (const ColdKey& key : std::exchange(committed_.garbage, {})) {
    if (cold_) cold_->erase(key.stamp, key.part, key.node, record_bytes(key.part));
  }
}

void StoreEngine::require_committed(std::string_view what) const {
  if (prepared_) {
    throw Error(fmt::format("{} while a prepared checkpoint waits; commit it first", what), ExitCode::kUsage);
  }
}

}  // namespace shoal
