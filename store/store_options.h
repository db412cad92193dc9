// What a store is made of and what it may use. The defaults are good ones; only directory, layout, nodes and ram_bytes
// must be set.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>

#include "store/device_choice.h"
#include "store/io_device.h"
#include "store/peer_link.h"
#include "store/state_layout.h"

namespace shoal {

// What the engine had to wait for while nothing was with the workers: records from the disk, frames that are being
// written back, other ranks' records.
enum class Stall { kRead, kWriteBack, kNeighbours };

// kTry takes it where the system gives it and reports where not.
enum class Want { kNo, kTry };

struct StoreOptions {
  std::filesystem::path directory;
  std::filesystem::path cold_directory;  // empty: directory/cold
  StateLayout layout;
  NodeId nodes = 0;
  // Of the store among all: create() gives it to the new one, or one at random for 0; all else refuses a store that
  // has another, unless it is 0.
  std::uint64_t id = 0;

  // The one RAM number: arena, RocksDB, I/O buffers, tables and plans together.
  std::uint64_t ram_bytes = 0;
  // Slab bytes, on disk, beyond which the nodes that act last go to the cold tier. Mapped slabs, which are used in
  // place, may pass it.
  std::uint64_t warm_bytes = std::numeric_limits<std::uint64_t>::max();

  // The most that one step of any plan reads, and the most that all steps of one round read together: what tables and
  // the minimum are computed from. A plan that exceeds them is refused.
  std::size_t max_reads_per_step = 8;
  std::uint64_t max_reads_per_round = 0;  // 0: nodes * max_reads_per_step
  // Old versions that a round keeps alive at once, at most (UseIndex::extra_versions); empty: not known. Where RAM is
  // enough for them and all records, no more than that is taken.
  std::optional<std::uint64_t> old_versions;
  unsigned rounds_ahead = 2;  // rounds that may be planned and not yet ended, the running one included

  IoEngine io = IoEngine::kAuto;
  unsigned queue_depth = 16;  // requests in flight; with more or fewer a step waits longer for its own
  // While steps wait for a worker nobody waits for the device, and the engine need not be woken to feed it.
  unsigned relaxed_queue_depth = 64;
  unsigned submit_batch = 32;           // requests handed to the device in one system call, at most
  unsigned workers = 0;                 // threads that hold a lease each; 0: not known, so every lease is urgent
  std::uint64_t prefetch_bytes = 0;     // read ahead of use, at most; 0: what MemoryPlan finds right for the RAM
  std::uint64_t cold_memory_bytes = 0;  // RocksDB's share; 0: a 32nd of what is of use, within [minimum, 64 MiB]

  // Memory for the arena that the owner brings (an MPI window, pinned memory); empty: the store maps its own.
  std::span<std::byte> region;
  Want huge_pages = Want::kTry;
  Want page_lock = Want::kNo;

  // Other ranks' stores, if there are any: see peer_link.h. All outlive the store.
  PeerLink* peers = nullptr;
  NodeId guests = 0;                  // nodes [nodes, nodes + guests) of a plan are theirs
  std::span<DirectoryEntry> listing;  // one for every own node; part of ram_bytes
  bool seal_public = false;           // some of them check what they have read
  unsigned serving_frames = 0;        // reserved for what they ask for; at least 1 with peers

  // Which of the checkpoints that are there (StateStore::checkpoints) open() takes up; empty: the newest, though it may
  // be prepared only. One rank alone needs no more; of several, each must be given one that all of them have.
  std::optional<std::uint64_t> open_epoch;

  // Told of every such time, on the engine's thread. May be empty.
  using Time = std::chrono::steady_clock::time_point;
  std::function<void(Stall stall, Time from, Time to)> on_stall;

  // Told of the first failure, once, on the engine's thread, before anybody who waits for the store is. It need not
  // return: where other ranks wait for this one, it is what ends them.
  std::function<void(std::exception_ptr)> on_failure;

  // Only for StateStore::create: an existing store of this directory is deleted first.
  bool overwrite = false;
  // Tests wrap or replace the device here; it is given the one that `io` chose.
  std::function<std::unique_ptr<IoDevice>(std::unique_ptr<IoDevice>)> device_hook;
};

}  // namespace shoal
