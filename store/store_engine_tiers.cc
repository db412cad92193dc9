// Bulk work between rounds: creating and opening, moves between slabs and the cold tier, verification.
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "store/error.h"
#include "store/record.h"
#include "store/size_text.h"
#include "store/store_engine.h"
#include "store/store_files.h"

namespace shoal {
namespace {

std::uint64_t random_id() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

}  // namespace

void StoreEngine::remove_files(const StoreOptions& options) {
  StoreFolders folders(options);
  if (!store_id_in(folders.store)) throw Error(fmt::format("there is no store in {}", folders.store.string()));
  StoreLock lock(folders.store);
  const std::uint64_t id = store_id_in(folders.store).value_or(0);
  if (options.id != 0 && options.id != id) {
    throw Error(fmt::format("the store in {} is another one: its id is {:016x}, and {:016x} is to be deleted",
                            folders.store.string(), id, options.id));
  }
  if (!Manifest::exists(folders.store)) {
    if (const auto half = half_store_in(folders.store)) folders.cold = half->cold;
  }
  mark_half_store(folders, id);
  remove_store_files(folders);
  remove_half_store_mark(folders.store);
  lock.remove_file();
  remove_if_empty(folders.cold);
  remove_if_empty(folders.store);
}

void StoreEngine::create_files() {
  const StoreFolders folders(options_);
  require_free(folders, options_.overwrite);
  std::error_code error;
  std::filesystem::create_directories(folders.store, error);
  if (error) throw Error(fmt::format("creating {}: {}", folders.store.string(), error.message()));
  lock_ = std::make_unique<StoreLock>(folders.store);
  require_free(folders, options_.overwrite);  // nobody has made one in the meantime

  manifest_.store_id = options_.id != 0 ? options_.id : random_id();
  manifest_.nodes = nodes_;
  manifest_.layout = layout_;
  const std::optional<HalfStore> half = half_store_in(folders.store);
  mark_half_store(folders, manifest_.store_id);
  if (half && half->cold != folders.cold) remove_store_files({folders.store, half->cold});
  remove_store_files(folders);
  try {
    set_up(OpenMode::kCreate);
    write_first_checkpoint();
    manifest_.write(folders.store);
    remove_half_store_mark(folders.store);
  } catch (...) {
    tear_down();
    // What cannot be cleaned up must not hide why the store could not be made.
    try {
      remove_store_files(folders);
      remove_half_store_mark(folders.store);
      lock_->remove_file();
      remove_if_empty(folders.cold);
    } catch (const std::filesystem::filesystem_error&) {
    }
    throw;
  }
}

void StoreEngine::open_files() {
  if (!Manifest::exists(options_.directory)) Manifest::read(options_.directory);  // says what is missing
  lock_ = std::make_unique<StoreLock>(options_.directory);
  manifest_ = Manifest::read(options_.directory);
  manifest_.require_id(options_.id, options_.directory);
  manifest_.require(layout_, nodes_, options_.directory);
  try {
    set_up(OpenMode::kExisting);
    restore_checkpoint();
    remove_half_store_mark(options_.directory);  // its manifest was there before the mark could go
  } catch (...) {
    tear_down();
    throw;
  }
}

void StoreEngine::set_up(OpenMode mode) {
  const ColdAccess access = mode == OpenMode::kCreate ? ColdAccess::kCreate : ColdAccess::kOpen;
  cold_ = std::make_unique<ColdTier>(ColdOptions{cold_directory_, memory_.cold, access}, budget_);
  ArenaOptions arena;
  arena.bytes = memory_.arena;
  arena.region = options_.region;
  arena.huge_pages = options_.huge_pages;
  arena.page_lock = options_.page_lock;
  arena_ = std::make_unique<Arena>(arena, layout_, budget_);

  DeviceOptions device;
  device.depth = std::max(options_.queue_depth, options_.relaxed_queue_depth);
  device.buffers = arena_->region();
  device.map_reserve_bytes =
      round_up(4 * nodes_ * std::max(record_bytes(Part::kPublic), record_bytes(Part::kPrivate)), 1 << 30);
  DeviceChoice choice = choose_device(options_.io, options_.directory, device);
  device_report_ = choice.report;
  device_ = options_.device_hook ? options_.device_hook(std::move(choice.device)) : std::move(choice.device);

  set_up_tables(mode, options_.directory / kSlotTableFile);
}

void StoreEngine::rehearse() {
  ArenaOptions arena;
  arena.bytes = memory_.arena;
  arena.huge_pages = Want::kNo;
  arena.addresses_only = true;
  arena_ = std::make_unique<Arena>(arena, layout_, budget_);
  device_ = options_.device_hook(nullptr);
  set_up_tables(OpenMode::kCreate, {});
}

void StoreEngine::set_up_tables(OpenMode mode, const std::filesystem::path& table_file) {
  std::array<Slab*, kPartCount> slabs{};
  for (const Part part : kParts) {
    slabs_[index(part)] =
        std::make_unique<Slab>(*device_, slab_path(options_.directory, part), mode, part, record_bytes(part));
    slabs[index(part)] = slabs_[index(part)].get();
  }
  // Others read the arena: with them, records come into it even from files that are memory already.
  in_place_ = peers_ == nullptr && device_->in_place(slab(Part::kPublic).file(), 0) != nullptr;
  if (in_place_) arena_->count_only();
  table_ = std::make_unique<SlotTable>(table_file, nodes_, manifest_.store_id);
  cache_ = std::make_unique<FrameCache>(*arena_, nodes_ + options_.guests, options_.listing);
  slab_io_ = std::make_unique<SlabIo>(*device_, *cache_, slabs, options_.submit_batch);
  cold_worker_ = std::make_unique<ColdWorker>(cold_.get(), 2 * memory_.flights, [this] { notify(); });
}

void StoreEngine::tear_down() {
  cold_worker_.reset();
  slab_io_.reset();
  cache_.reset();
  table_.reset();
  for (auto& slab : slabs_) slab.reset();
  device_.reset();
  arena_.reset();
  cold_.reset();
}

void StoreEngine::require_idle(std::string_view what) const {
  if (running_) throw Error(fmt::format("{} while a round is running; end it first", what), ExitCode::kUsage);
}

// Between the warm and the cold tier.

void StoreEngine::demote(std::span<const NodeId> nodes) {
  on_engine([&] {
    require_idle("demotion");
    require_committed("demotion");
    std::vector<NodeId> sorted(nodes.begin(), nodes.end());
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    if (!sorted.empty() && sorted.back() >= nodes_) {
      throw Error(fmt::format("there is no node {}; the store has {}", sorted.back(), nodes_), ExitCode::kUsage);
    }
    fit_arena();
    for (const Part part : kParts) demote_part(part, sorted);
  });
}

void StoreEngine::promote(std::span<const NodeId> nodes) {
  on_engine([&] {
    require_idle("promotion");
    require_committed("promotion");
    fit_arena();
    for (const Part part : kParts) {
      for (const NodeId node : nodes) {
        if (node >= nodes_) {
          throw Error(fmt::format("there is no node {}; the store has {}", node, nodes_), ExitCode::kUsage);
        }
        if (!table_->location(part, node).is_cold()) continue;
        if (!warm_room(part)) {
          throw Error(fmt::format("the slabs are full at {}: node {} stays cold; raise warm_bytes",
                                  size_text(options_.warm_bytes), node),
                      ExitCode::kUsage);
        }
        const FrameId id = load_now(part, node);
        cache_->unpin(id);
        if ((*cache_)[id].phase == Phase::kReady) evict(id);
      }
    }
    settle();
  });
}

// The record in a pinned frame, right now. Only between rounds.
FrameId StoreEngine::load_now(Part part, NodeId node) {
  FrameId id = cache_->current(part, node);
  if (id != kNoFrame) {
    if ((*cache_)[id].phase != Phase::kReady) settle();
    id = cache_->current(part, node);  // a write that was to free the frame may have done so
  }
  if (id != kNoFrame) {
    cache_->pin(id);
    return id;
  }
  while (arena_->free_frames(part) == 0 && !make_room(part)) settle();
  id = cache_->bind(part, node, false);
  load(id);
  while ((*cache_)[id].phase == Phase::kLoading) wait_for_io(take_cold());
  return id;
}

void StoreEngine::demote_part(Part part, const std::vector<NodeId>& nodes) {
  for (const unsigned side : {0u, 1u}) {
    // One free frame is enough, and it must be there before: while the file is written nothing may be evicted, since
    // that could want to go to the cold tier as well. And what an eviction has moved, or found to be zeros, is not to
    // be chosen.
    while (arena_->free_frames(part) == 0 && !make_room(part)) settle();
    settle();
    std::vector<NodeId> movable;
    for (const NodeId node : nodes) {
      const FrameId id = cache_->current(part, node);
      const bool newer_in_ram = id != kNoFrame && (*cache_)[id].dirty;
      const bool movable_now = table_->location(part, node).is_slab() || newer_in_ram;
      if (movable_now && table_->side(node) == side) movable.push_back(node);
    }
    if (!movable.empty()) demote_sorted(part, movable, cold_stamp(newest_epoch() + 1, side));
  }
}

void StoreEngine::demote_sorted(Part part, const std::vector<NodeId>& nodes, Epoch stamp) {
  FrameId held = kNoFrame;
  const auto let_go = [&] {
    if (held == kNoFrame) return;
    cache_->unpin(held);
    if (!(*cache_)[held].dirty) cache_->empty(held);
    held = kNoFrame;
  };
  const auto record_of = [&](NodeId node) -> std::span<const std::byte> {
    let_go();
    held = load_now(part, node);
    Cached& entry = (*cache_)[held];
    check_if_new(held);
    if (!std::exchange(entry.sealed, true)) seal_record(entry, entry.version);
    return {entry.record, record_bytes(part)};
  };
  if (cold_) {
    cold_->ingest(stamp, part, nodes, record_of);
  } else {
    for (const NodeId node : nodes) record_of(node);
    rehearsed_puts_ += nodes.size() * record_bytes(part);
  }
  round_report_.cold_bytes_written += nodes.size() * record_bytes(part);
  let_go();
  for (const NodeId node : nodes) {
    const Location before = table_->location(part, node);
    const Location now = Location::cold(stamp);
    const FrameId id = cache_->current(part, node);
    if (id != kNoFrame) {
      // Used in place, the frame may sit in a slot that the table has not heard of.
      const Location held_slot = Location::slab((*cache_)[id].slot);
      cache_->empty(id);
      if (in_place_ && held_slot != before) retire(part, node, held_slot, AfterRelease::kPunch);
    }
    table_->set_location(part, node, now);
    if (before != now) retire(part, node, before, AfterRelease::kPunch);
  }
}

// When the slabs have no room for what the coming round will write, nodes that are used last, if at all, go cold.
void StoreEngine::relieve_warm() {
  std::uint64_t used = 0;
  for (const Part part : kParts) used += slab(part).used_bytes();
  const UseIndex& round = *rounds_.front().index;
  std::uint64_t acting = 0;
  for (std::uint32_t step = 0; step < round.steps(); ++step) acting += writes(round.plan().kind(step)) ? 1 : 0;
  std::uint64_t wanted = acting * record_bytes(Part::kPublic);
  if (options_.warm_bytes - std::min(options_.warm_bytes, used) >= wanted) return;

  // Nodes that this round leaves alone, farthest use first.
  std::vector<std::pair<PlanTime, NodeId>> idle;
  for (NodeId node = 0; node < nodes_; ++node) {
    if (!round.uses(node).empty() || round.private_step(node) != kNever) continue;
    if (!table_->location(Part::kPublic, node).is_slab() && !table_->location(Part::kPrivate, node).is_slab()) continue;
    idle.emplace_back(std::min(later_public_use(node), later_private_use(node)), node);
  }
  std::sort(idle.begin(), idle.end(), std::greater<>());
  std::vector<NodeId> chosen;
  for (const auto& [time, node] : idle) {
    if (options_.warm_bytes >= used + wanted) break;
    chosen.push_back(node);
    used -= std::min(used, layout_.state_bytes());
  }
  std::sort(chosen.begin(), chosen.end());
  for (const Part part : kParts) demote_part(part, chosen);
}

// Verification.

VerifyReport StoreEngine::verify() {
  VerifyReport report;
  on_engine([&] {
    require_idle("verification");
    fit_arena();
    flush_dirty();
    try {
      Manifest::read(options_.directory);
      cold_->verify();
    } catch (const Error& error) {
      report.problems.emplace_back(error.what());
    }
    verify_entries(table_->entries(), {}, report);
    try {
      const CheckpointHead head = read_checkpoint_head(*cold_, cold_directory_.string());
      for (const Checkpoint& checkpoint : head.checkpoints) {
        verify_entries(read_checkpoint_entries(*cold_, nodes_, checkpoint.epoch, cold_directory_.string()),
                       table_->entries(), report);
      }
    } catch (const Error& error) {
      report.problems.emplace_back(error.what());
    }
  });
  return report;
}

// Reads every record of `entries` that is not the same in `known`, from where its durable copy is.
void StoreEngine::verify_entries(std::span<const SlotEntry> entries, std::span<const SlotEntry> known,
                                 VerifyReport& report) {
  for (const Part part : kParts) {
    std::vector<FrameId> batch;
    for (NodeId node = 0; node < entries.size(); ++node) {
      const auto where = Location::from_word(entries[node].location[index(part)]);
      if (!known.empty() && Location::from_word(known[node].location[index(part)]) == where) continue;
      report.zero_records += where.is_zero() ? 1 : 0;
      if (!where.is_slab() && !where.is_cold()) continue;
      ++report.records;
      while (arena_->free_frames(part) == 0 && !make_room(part)) settle();
      const FrameId id = cache_->bind_scratch(part, node);
      (*cache_)[id].version = entries[node].version;
      batch.push_back(id);
      if (where.is_slab()) {
        place_in_slot(id, where.slot());
        slab_io_->start(IoRequest::Op::kRead, id, where.slot());
      } else {
        (*cache_)[id].written_to = where;
      }
      if (batch.size() >= reserve_[index(part)]) verify_batch(part, batch, report);
    }
    verify_batch(part, batch, report);
  }
}

void StoreEngine::verify_batch(Part part, std::vector<FrameId>& batch, VerifyReport& report) {
  const auto attempt = [&](const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& error) {
      report.problems.emplace_back(error.what());
      return false;
    }
    return true;
  };
  // A read error ends the batch's reads; the rest of it is then judged by what arrived, which names them all.
  if (!attempt([&] { settle(); })) slab_io_->drain();
  for (const FrameId id : batch) {
    const Cached& entry = (*cache_)[id];
    const Location cold = entry.written_to;
    attempt([&] {
      if (!cold.is_cold()) {
        check(id, Location::slab(entry.slot));
        return;
      }
      if (in_place_) place_in_slot(id, slab(part).allocate());
      cold_->get(cold.stamp(), part, entry.node, {entry.record, record_bytes(part)});
      check(id, cold);
    });
    if (in_place_) {
      slab_io_->start(IoRequest::Op::kWrite, id, entry.slot);  // lets the pages go
      settle();
      if (cold.is_cold()) slab(part).release(entry.slot, AfterRelease::kPunch);
    }
    cache_->unpin(id);
    cache_->empty(id);
  }
  batch.clear();
}

}  // namespace shoal
