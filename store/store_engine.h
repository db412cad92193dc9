// What runs behind StateStore: one thread that follows the plan.
//
// For each step it gathers the records (store_engine_fetch.cc), hands the step to the caller when all are in RAM, takes
// it back, writes what must be written and evicts what is used farthest away (store_engine_write_back.cc). A round ends
// with all its new versions becoming visible (store_engine_rounds.cc). Between rounds it does the bulk work:
// checkpoints (store_engine_checkpoint.cc), demotion, verification (store_engine_tiers.cc). All state below belongs to
// that thread unless it says otherwise.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "store/checkpoint_image.h"
#include "store/cold_worker.h"
#include "store/frame_cache.h"
#include "store/manifest.h"
#include "store/memory_plan.h"
#include "store/record_check.h"
#include "store/slab_io.h"
#include "store/slot_table.h"
#include "store/state_store.h"
#include "store/store_lock.h"
#include "store/traffic_bound.h"
#include "store/use_index.h"

namespace shoal {

// A step under way: gathering its records, with the caller, or on its way back.
struct Flight {
  std::uint32_t index = 0;
  std::uint32_t step = 0;
  StepKind kind = StepKind::kRead;
  NodeId node = kNoNode;
  Version version = 0;
  Version next_version = 0;
  FrameId own = kNoFrame;
  FrameId private_frame = kNoFrame;
  FrameId next = kNoFrame;
  std::vector<FrameId> reads;
  std::vector<std::uint8_t> counts;  // whether the k-th read is the step's first use of that record
  // kNoFrame in `reads`: in the memory of the rank that owns it.
  std::vector<const std::byte*> read_payloads;
  const std::byte* own_payload = nullptr;
  std::byte* next_payload = nullptr;
  std::byte* private_payload = nullptr;
  std::uint32_t gathered = 0;  // records that have a frame: own, private, next, then the reads
  std::uint32_t loading = 0;   // of those, how many are not there yet
  std::uint64_t bytes = 0;     // brought in for this step
  bool committed = false;
  // What the caller's thread does to its records, while they are in its caches: seals those that will leave RAM.
  std::array<bool, kPartCount> seals{};
  bool written = false;         // and it has done so
  bool used_unchecked = false;  // the caller has records that it may not have finished checking
  std::exception_ptr error;     // one of them was damaged, or the caller gave up
  Flight* behind = nullptr;     // in the list of returned flights
  bool serving = false;         // for another rank: reads[0] is all it has
  bool replaced = false;        // and that is the version which the running round has made
  ServeRequest request;
};

class StoreEngine {
 public:
  // kRehearse: no files and no bytes; see StoreRehearsal. The device is options.device_hook's.
  enum class Start { kCreate, kOpen, kRehearse };
  static void remove_files(const StoreOptions& options);
  StoreEngine(const StoreOptions& options, Start start);
  ~StoreEngine();

  // The caller's side of StateStore; each waits for the engine thread.
  void plan(std::shared_ptr<const AccessPlan> round);
  void begin_round(std::function<void(NodeLease)> ready, std::function<void()> done);
  RoundReport end_round();
  bool failed();
  void checkpoint(std::string_view note);
  void prepare_checkpoint(std::string_view note);
  void commit_checkpoint();
  void demote(std::span<const NodeId> nodes);
  void promote(std::span<const NodeId> nodes);
  VerifyReport verify();
  StoreReport report();
  Version version(NodeId node);
  const std::string& checkpoint_note() const { return committed_.note; }
  std::uint64_t checkpoint_count() const { return committed_.epoch; }
  const StateLayout& layout() const { return layout_; }
  NodeId nodes() const { return nodes_; }
  std::uint64_t id() const { return manifest_.store_id; }
  std::uint32_t places() const { return memory_.flights; }

  // Any thread that holds the flight.
  void look_at(Flight& flight, FrameId id);
  void begin_check(Flight& flight, FrameId id, RecordCheck& check);
  void finish_check(Flight& flight, FrameId id, RecordCheck& check);
  void seal_new(Flight& flight);
  void complete(Flight& flight);
  void give_back(Flight* flight, bool committed);

  // uses_left_, use_cursor_, seen_step_, acted_; both parts' dead_cold_; the slot table's image twice while a
  // checkpoint is written.
  static constexpr std::uint64_t kBytesPerNode = 13 + 2 * sizeof(ColdKey) + 2 * sizeof(SlotEntry);
  static constexpr std::uint64_t kBytesPerGuest = 13;
  static std::uint64_t bytes_per_flight(std::size_t max_reads);

 private:
  struct Command {
    std::function<void()> work;
    std::exception_ptr error;
    bool done = false;
  };
  struct Round {
    std::shared_ptr<const UseIndex> index;
    MemoryCharge charge;
  };

  // store_engine.cc: the thread.
  void run();
  void on_engine(std::function<void()> work);
  void notify();
  bool run_commands();
  bool take_returns();
  bool take_cold();
  bool take_peers();
  void wait_for_io(bool busy);
  bool relaxed() const;
  bool may_rest();
  void rest();
  void settle();
  void fail(std::exception_ptr error);
  static double seconds_now();

  // store_engine_rounds.cc: from one round to the next.
  void start_round();
  void finish_round();
  void tell_done();
  void fit_arena();
  void write_aside(const std::function<bool(const Cached&)>& which);
  PlanTime later_public_use(NodeId node) const;
  PlanTime later_private_use(NodeId node) const;
  PlanTime next_public_use(NodeId node, std::uint32_t after_step);

  // store_engine_fetch.cc: the life of a node-step.
  void pump();
  bool gather(Flight& flight);
  bool gather_own(Flight& flight);
  bool gather_private(Flight& flight);
  bool gather_next(Flight& flight);
  bool gather_read(Flight& flight, std::size_t k);
  FrameId use(Flight& flight, Part part, NodeId node, bool to_change);
  void count_use(Cached& entry);
  void await(Flight& flight, FrameId id);
  FrameId bind(Flight& flight, Part part, NodeId node, bool next);
  bool frames_come_back(const Flight& flight, Part part) const;
  void load(FrameId id);
  void loaded(FrameId id);
  void deliver(Flight& flight);
  void returned(Flight& flight);
  void retire_if_dead(NodeId node);
  void ready(FrameId id);
  void transfer_finished(FrameId id, IoRequest::Op op);
  void check(FrameId id, Location from) const;
  void check_if_new(FrameId id);
  RecordId record_id(FrameId id) const;
  void require_whole(FrameId id, Location from, const std::string& wrong) const;
  void seal_record(const Cached& entry, Version version) const;

  // store_engine_ahead.cc: what the next round begins with.
  void read_for_next_round();
  bool read_ahead(Part part, NodeId node, PlanTime use, std::uint64_t& bytes);

  // store_engine_write_back.cc: what leaves RAM, and where it goes.
  bool make_room(Part part);
  void evict(FrameId id);
  void write_back(FrameId id, bool drop);
  void written(FrameId id);
  bool is_zero(const Cached& entry) const;
  bool warm_room(Part part) const;
  std::optional<std::uint64_t> wanted_slot(const Cached& entry) const;
  Slot warm_slot(const Cached& entry);
  Location location_of(const Cached& entry) const;
  void set_location(const Cached& entry, Location location);
  void retire(Part part, NodeId node, Location location, AfterRelease after = AfterRelease::kReuse);
  void place_in_slot(FrameId id, Slot slot);

  // store_engine_peers.cc: records from and for other ranks.
  bool is_guest(NodeId node) const { return node >= nodes_; }
  bool is_replaced(NodeId node) const { return acted_[node] != 0 && uses_left_[node] == 0; }
  bool read_in_place(Flight& flight, NodeId guest);
  FrameId use_guest(Flight& flight, NodeId node);
  void keep_held_in_place();
  void let_held_go();
  void drop_guest_if_dead(NodeId node);
  void serve_waiting();
  void served(Flight& flight);
  void stop_serving(Flight& flight);
  std::uint32_t kept_for_serving(Part part) const;
  bool may_pin(FrameId id) const;

  // store_engine_checkpoint.cc
  std::uint64_t bytes_written() const;
  std::uint64_t cold_bytes_written() const { return cold_ ? cold_->bytes_written() - set_up_bytes_ : rehearsed_puts_; }
  void count_checkpoint(const std::function<void()>& part);
  void flush_dirty();
  void write_first_checkpoint();
  void write_checkpoint(std::string_view note);
  void restore_checkpoint();
  void erase_garbage();
  void require_committed(std::string_view what) const;
  Epoch newest_epoch() const { return prepared_ ? prepared_->epoch : committed_.epoch; }

  // store_engine_tiers.cc: bulk work between rounds.
  void create_files();
  void open_files();
  void rehearse();
  void set_up(OpenMode mode);
  void set_up_tables(OpenMode mode, const std::filesystem::path& table_file);
  void tear_down();
  FrameId load_now(Part part, NodeId node);
  void demote_part(Part part, const std::vector<NodeId>& nodes);
  void demote_sorted(Part part, const std::vector<NodeId>& nodes, Epoch stamp);
  void relieve_warm();
  void verify_entries(std::span<const SlotEntry> entries, std::span<const SlotEntry> known, VerifyReport& report);
  void verify_batch(Part part, std::vector<FrameId>& batch, VerifyReport& report);
  void require_idle(std::string_view what) const;

  std::uint64_t payload_bytes(Part part) const { return layout_.payload_bytes(part); }
  std::uint64_t record_bytes(Part part) const { return layout_.record_bytes(part); }
  Slab& slab(Part part) { return *slabs_[index(part)]; }
  const Slab& slab(Part part) const { return *slabs_[index(part)]; }

  const StoreOptions options_;
  const StateLayout layout_;
  const NodeId nodes_;
  const MemoryPlan memory_;
  std::filesystem::path cold_directory_;
  MemoryBudget budget_;
  MemoryCharge table_charge_;
  MemoryCharge io_charge_;
  std::unique_ptr<StoreLock> lock_;
  Manifest manifest_;

  std::unique_ptr<ColdTier> cold_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<IoDevice> device_;
  ModeReport device_report_;
  std::array<std::unique_ptr<Slab>, kPartCount> slabs_;
  std::unique_ptr<SlotTable> table_;
  std::unique_ptr<FrameCache> cache_;
  std::unique_ptr<SlabIo> slab_io_;
  std::unique_ptr<ColdWorker> cold_worker_;
  bool in_place_ = false;
  const bool rehearsal_;  // frames are addresses without memory, and there is no cold tier

  // Checkpoints: what is durable, and what may go when the next one is committed.
  Checkpoint committed_;
  std::optional<Checkpoint> prepared_;
  std::vector<ColdKey> dead_cold_;

  // Rounds: front is the running one while running_.
  std::deque<Round> rounds_;
  PlanTime base_ = 0;  // time of the front round's first step
  std::uint64_t round_number_ = 0;
  bool running_ = false;
  bool failed_ = false;       // nothing moves any more
  std::uint32_t cursor_ = 0;  // next step to gather
  std::uint32_t finished_steps_ = 0;
  std::function<void(NodeLease)> ready_;
  std::function<void()> done_;
  std::vector<std::uint32_t> uses_left_;
  std::vector<std::uint32_t> use_cursor_;
  std::vector<std::uint32_t> seen_step_;
  std::vector<std::uint8_t> acted_;
  RoundReport round_report_;
  TrafficBound bound_;
  std::uint64_t set_up_bytes_ = 0;      // that the cold tier wrote before there was a store
  std::uint64_t rehearsed_puts_ = 0;    // bytes that a rehearsal put into a cold tier that is not there
  std::uint64_t checkpoint_bytes_ = 0;  // written
  std::uint64_t old_versions_ = 0;      // of the planned round that keeps most

  std::vector<std::unique_ptr<Flight>> flights_;
  std::vector<Flight*> free_flights_;
  std::vector<std::uint32_t> next_waiter_;
  Flight* opening_ = nullptr;
  std::uint64_t flying_bytes_ = 0;
  std::uint32_t flying_ = 0;                             // opened and not returned
  std::array<std::uint32_t, kPartCount> reserve_{1, 1};  // frames kept free or on their way to be
  std::array<std::uint32_t, kPartCount> dropping_{};     // on their way to be free
  std::array<bool, kPartCount> pressed_{};               // not everything fits: evict before a frame is asked for
  std::vector<ColdJob> cold_done_;

  // Other ranks.
  PeerLink* const peers_;
  PeerLink::News news_;
  std::deque<ServeRequest> asked_;  // and not served yet
  std::vector<Flight*> free_serving_;
  std::uint32_t serving_ = 0;         // frames that others are reading
  std::uint32_t guests_loading_ = 0;  // on their way here
  bool no_frame_to_serve_ = false;    // and somebody waits for one
  bool serving_paused_ = false;       // bulk work wants the frames to itself
  bool told_done_ = false;            // all steps of the running round are committed, and the caller knows

  // Shared with other threads.
  std::atomic<Flight*> returned_{nullptr};
  enum class Sleep : std::uint8_t { kAwake, kInDevice, kResting };
  std::atomic<Sleep> sleep_{Sleep::kAwake};
  std::mutex rest_mutex_;
  std::condition_variable rested_;
  std::atomic<std::uint32_t> leases_out_{0};  // not given back
  std::atomic<std::uint32_t> wake_at_{0};     // leases out at which giving one back ends the engine's sleep
  std::atomic<bool> have_commands_{false};
  std::atomic<bool> may_end_{false};           // the steps of the running round are committed on all ranks
  std::atomic<std::uint32_t> with_caller_{0};  // leases out or not yet taken back
  std::mutex mutex_;                           // guards what follows
  std::condition_variable changed_;
  std::vector<Command*> commands_;
  std::exception_ptr failure_;
  bool round_over_ = true;
  bool stop_ = false;
  std::shared_ptr<const UseIndex> ended_round_;
  RoundReport ended_report_;
  std::thread thread_;
};

}  // namespace shoal
