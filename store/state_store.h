// The store: a population's state in three tiers, driven by access plans.
//
//   auto store = StateStore::create(options);
//   store->plan(round_0); store->plan(round_1);             // some rounds ahead, if known
//   store->begin_round([&](NodeLease lease) { queue.push(std::move(lease)); }, [&] { queue.close(); });
//   ... workers: pop a lease, compute on its memory, lease.commit() ...
//   RoundReport report = store->end_round();                // all new versions become visible at once
//   store->checkpoint("round 0 done");                      // durable; what open() gives after a crash
//
// Ranks that must all go back to the same point make a checkpoint in two steps: prepare_checkpoint() on each; when all
// have returned, commit_checkpoint() on each. Whenever they are killed, the newest epoch that all of them list
// (checkpoints()) is there on every rank, to be opened with StoreOptions::open_epoch.
//
// One engine thread owns the device, the tables and all decisions; the calls below hand it work and wait. They belong
// to one caller thread, except that leases may be moved to, used on and committed from any thread; all of them must be
// gone, and all commit() calls have returned, before the store is destroyed.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/access_plan.h"
#include "store/memory_budget.h"
#include "store/mode_report.h"
#include "store/state_layout.h"
#include "store/store_options.h"
#include "store/types.h"

namespace shoal {

class RecordCheck;
class StoreEngine;
struct Flight;

// One node's step with all its data in RAM. Move-only. The memory stays put and unchanged (but for the parts that are
// the caller's to write) until commit() or destruction. A step that writes must be committed: destroying its lease
// without that fails the round, since the node's new state does not exist.
class NodeLease {
 public:
  NodeLease() = default;
  NodeLease(NodeLease&& other) noexcept;
  NodeLease& operator=(NodeLease&& other) noexcept;
  ~NodeLease();

  explicit operator bool() const { return flight_ != nullptr; }
  std::size_t step() const;  // position in the plan
  StepKind kind() const;
  NodeId node() const;
  Version version() const;  // of the current state; 0 when there is none yet
  // Below StateStore::places(), and no other lease's while this one is out: an index for what the caller keeps with it.
  std::uint32_t place() const;

  // Payloads, 64-byte aligned, of layout.payload_bytes(part) bytes each; null where the step's kind has none. What came
  // from the disk is checked when it is first asked for: an Error if it is damaged, which also fails the round.
  const std::byte* current() const;  // public, as all others see it in this round
  std::byte* next() const;           // public, the new version: not initialised, never the same memory as current()
  std::byte* private_state() const;  // updated in place (kUpdate), zeroed (kCreate), not to be written (kInspect)
  std::size_t reads() const;
  const std::byte* read(std::size_t k) const;  // public payload of the plan's k-th read

  // current() (k = 0) and read(k - 1) for one who goes through the record anyway and takes `check` along: it may be
  // used at once. finish_input() then does what is left of the check, and throws as current() does; commit() makes up
  // for it where it was not called.
  std::size_t inputs() const { return 1 + reads(); }
  const std::byte* input(std::size_t k, RecordCheck& check) const;
  void finish_input(std::size_t k, RecordCheck& check) const;
  // private_state() likewise; what the caller writes must have been looked at by `check` before. After
  // finish_writing() it writes no more to either record. What leaves RAM is then sealed while it is still in the
  // writer's cache; commit() does it where this was not called.
  std::byte* private_state(RecordCheck& check) const;
  void finish_writing(RecordCheck& private_check) const;

  // kCreate only, before commit(): the new state's version, above 0, instead of version() + 1. For copies of nodes.
  void set_version(Version version);
  void commit();                           // the caller is done with the memory; what it wrote is the node's next state
  void give_up(std::exception_ptr cause);  // the caller cannot: the round fails with that cause

 private:
  friend class StoreEngine;
  NodeLease(StoreEngine* engine, Flight* flight) : engine_(engine), flight_(flight) {}

  StoreEngine* engine_ = nullptr;
  Flight* flight_ = nullptr;
};

// What one round moved. Bytes are whole records, as the device moves them.
struct RoundReport {
  std::uint64_t steps = 0;
  std::array<std::uint64_t, kPartCount> hits{};    // uses that found the record in RAM or on its way there
  std::array<std::uint64_t, kPartCount> misses{};  // uses that had to bring it
  std::uint64_t zero_misses = 0;                   // of those: all zeros, which come from no tier
  std::uint64_t cold_misses = 0;                   // of those: from the cold tier
  std::uint64_t slab_bytes_read = 0;
  std::uint64_t slab_bytes_written = 0;
  std::uint64_t cold_bytes_read = 0;  // before compression
  std::uint64_t cold_bytes_written = 0;
  std::uint64_t cold_file_bytes_read = 0;  // as the device moved them: compressed, with compactions in the background
  std::uint64_t cold_file_bytes_written = 0;
  // No policy, even one that knows all rounds planned so far, could have moved fewer bytes with this arena.
  // It holds for the sum over rounds since the store was opened, for records that are not all zeros (those are free,
  // and only those fresh from their creation are known to be); see docs/architecture.md.
  std::uint64_t lower_bound_bytes = 0;
  double seconds = 0;
  double stalled_seconds = 0;            // the engine had steps to fetch, and nothing was with the workers
  double write_stalled_seconds = 0;      // of those, until a frame was written back and free again
  double neighbour_stalled_seconds = 0;  // of those, until another rank's record came
  std::uint64_t guest_fetches = 0;       // records that came from other ranks
  std::uint64_t guests = 0;              // of that many nodes: fewer fetches would not do
};

struct StoreReport {
  std::vector<ModeReport> modes;
  std::uint64_t ram_bytes = 0;
  std::array<std::uint64_t, kMemoryTagCount> memory{};  // by tag
  std::array<std::uint64_t, kPartCount> frames{};       // as the arena is split now
  std::uint64_t state_bytes = 0;                        // all nodes' records
  std::uint64_t resident_ram_bytes = 0;                 // the RAM from which the rounds planned so far touch no disk
  std::uint64_t slab_bytes = 0;                         // of slots in use
  std::uint64_t slab_file_bytes = 0;                    // what the files take: free slots, kept for later, included
  std::array<std::uint64_t, kPartCount> most_slots{};   // in use at once, so far
  std::uint64_t cold_bytes = 0;
  std::uint64_t cold_nodes = 0;  // nodes with a part in the cold tier
  // What the device has moved since the store was opened or made: slabs and the cold tier's files.
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t checkpoint_bytes_written = 0;  // of those: by checkpoints
  std::uint64_t cold_bytes_read = 0;           // of those: the cold tier's, compactions included
  std::uint64_t cold_bytes_written = 0;
};

struct VerifyReport {
  std::uint64_t records = 0;
  std::uint64_t zero_records = 0;
  std::vector<std::string> problems;  // file, slot, node and what to do; empty: all is well
};

struct CheckpointInfo {
  std::uint64_t epoch = 0;  // how many checkpoints there were before; 0: the empty one of a new store
  std::string note;
};

class StateStore {
 public:
  // Both throw Error, having changed nothing, for a store that is locked, of another layout, node count or format, or
  // damaged, and for a RAM number below minimum_ram(). create() refuses a directory that holds a store unless
  // options.overwrite.
  static std::unique_ptr<StateStore> create(const StoreOptions& options);
  // As of the last checkpoint, or the one of options.open_epoch; a second one, newer or older, is dropped.
  static std::unique_ptr<StateStore> open(const StoreOptions& options);
  ~StateStore();

  // What a closed store could be opened at, oldest first: one, or two between prepare and commit. Looks at the two
  // directories only, and changes nothing; an Error when there is no store or a run has it open.
  static std::vector<CheckpointInfo> checkpoints(const StoreOptions& options);

  // Throws what create() would for what lies in the two directories.
  static void require_free(const StoreOptions& options);
  // Deletes the files of a closed store, or of one whose creation or deletion was interrupted, and its directory if
  // nothing else lies there.
  static void remove(const StoreOptions& options);

  static std::uint64_t minimum_ram(const StoreOptions& options);

  void plan(std::shared_ptr<const AccessPlan> round);
  // Starts the earliest planned round. `ready` is called on the engine thread, in plan order as data arrives, and must
  // not block; `done` once, when nothing more will come: all steps are committed, or the round failed.
  void begin_round(std::function<void(NodeLease)> ready, std::function<void()> done = {});
  // Waits for all leases of the round, then makes its versions visible. Throws the round's first error. With peers, to
  // be called when no other rank reads this round's records any more: after `done` here and everywhere else.
  RoundReport end_round();
  bool failed() const;  // whether the round has, or something before it: end_round() will throw

  // Between rounds.
  void checkpoint(std::string_view note);  // durable when it returns; the note comes back after open()
  // The same in two steps. Prepared, the new one is durable and the one before still whole: a store that is closed or
  // killed now opens at either. Until the commit, which drops the one before, there are no rounds, and nothing moves.
  void prepare_checkpoint(std::string_view note);
  void commit_checkpoint();
  // Of the last one that was committed, or the one that was opened.
  const std::string& checkpoint_note() const;   // empty: no checkpoint yet
  std::uint64_t checkpoint_count() const;       // its epoch
  void demote(std::span<const NodeId> nodes);   // to the cold tier, in bulk
  void promote(std::span<const NodeId> nodes);  // and back to the slabs
  VerifyReport verify();
  Version version(NodeId node) const;

  StoreReport report() const;
  std::uint32_t places() const;  // leases that can be out at once
  const StateLayout& layout() const;
  NodeId nodes() const;
  std::uint64_t id() const;  // of this store among all: records know whose they are

 private:
  explicit StateStore(std::unique_ptr<StoreEngine> engine);
  std::unique_ptr<StoreEngine> engine_;
};

}  // namespace shoal
