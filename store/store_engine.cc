#include "store/store_engine.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "store/error.h"
#include "store/store_files.h"

namespace shoal {
namespace {

constexpr std::chrono::milliseconds kLongestRest(5);

// The engine works for microseconds at a time and everybody waits for it meanwhile. A short slice lets it run when it
// is woken, not when a worker's slice of 3 ms is over (Linux 6.12 and later; older ones ignore it).
void ask_for_short_slices() {
  if (::sched_getscheduler(0) != SCHED_OTHER) return;  // someone has decided already
  // The C library has no name for it yet, and the kernel's header does not go with <sched.h>.
  struct {
    std::uint32_t size = 48;
    std::uint32_t policy = SCHED_OTHER;
    std::uint64_t flags = 0;
    std::int32_t nice = ::getpriority(PRIO_PROCESS, 0);
    std::uint32_t priority = 0;
    std::uint64_t runtime = 100'000;  // nanoseconds, the least there is
    std::uint64_t deadline = 0;
    std::uint64_t period = 0;
  } attributes;
  ::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

double StoreEngine::seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::uint64_t StoreEngine::bytes_per_flight(std::size_t max_reads) {
  return sizeof(Flight) + max_reads * (sizeof(FrameId) + 1 + sizeof(void*)) + (max_reads + 3) * sizeof(std::uint32_t);
}

StoreEngine::StoreEngine(const StoreOptions& options, Start start)
    : options_(options),
      layout_(options.layout),
      nodes_(options.nodes),
      memory_(MemoryPlan::for_options(options)),
      cold_directory_(StoreFolders(options).cold),
      budget_(options.ram_bytes),
      table_charge_(budget_.charge(MemoryTag::kTables, memory_.tables)),
      io_charge_(budget_.charge(MemoryTag::kIo, memory_.io)),
      rehearsal_(start == Start::kRehearse),
      uses_left_(nodes_ + options.guests, 0),
      use_cursor_(nodes_ + options.guests, 0),
      seen_step_(nodes_ + options.guests, kNever),
      acted_(nodes_ + options.guests, 0),
      bound_(layout_, rehearsal_ ? 0 : nodes_),
      peers_(options.peers) {
  const std::size_t objects = options_.max_reads_per_step + 3;
  for (std::uint32_t i = 0; i < memory_.flights + memory_.serving; ++i) {
    flights_.push_back(std::make_unique<Flight>());
    flights_.back()->index = i;
    flights_.back()->reads.reserve(options_.max_reads_per_step);
    flights_.back()->counts.reserve(options_.max_reads_per_step);
    flights_.back()->read_payloads.reserve(options_.max_reads_per_step);
    flights_.back()->serving = i >= memory_.flights;
    (flights_.back()->serving ? free_serving_ : free_flights_).push_back(flights_.back().get());
  }
  next_waiter_.assign(objects * flights_.size(), kNoWaiter);
  if (options_.queue_depth == 0 || options_.submit_batch == 0) {
    throw Error("a store's queue_depth and submit_batch are at least 1", ExitCode::kUsage);
  }
  SHOAL_CHECK(peers_ == nullptr || (memory_.serving > 0 && options_.listing.size() == nodes_));
  if (start == Start::kCreate) {
    create_files();
  } else if (start == Start::kOpen) {
    open_files();
  } else {
    rehearse();
  }
  if (cold_) set_up_bytes_ = cold_->bytes_written();
  if (peers_ != nullptr) peers_->set_wake([this] { notify(); });
  thread_ = std::thread([this] { run(); });
}

StoreEngine::~StoreEngine() {
  if (peers_ != nullptr) peers_->set_wake({});
  {
    // The engine thread sees the flag only after the lock is free again, so it does not take the device away under
    // notify().
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    have_commands_ = true;
    notify();
  }
  thread_.join();
}

// The caller's side.

void StoreEngine::on_engine(std::function<void()> work) {
  Command command{std::move(work), nullptr, false};
  {
    const std::scoped_lock lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    commands_.push_back(&command);
  }
  have_commands_ = true;
  notify();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return command.done; });
  if (command.error) std::rethrow_exception(command.error);
}

void StoreEngine::plan(std::shared_ptr<const AccessPlan> round) {
  if (round->max_reads() > options_.max_reads_per_step) {
    throw Error(fmt::format("a step of the plan reads {} records, and the store was opened for at most {} "
                            "(max_reads_per_step)",
                            round->max_reads(), options_.max_reads_per_step),
                ExitCode::kUsage);
  }
  MemoryCharge charge = budget_.charge(
      MemoryTag::kPlan,
      round->bytes() + UseIndex::bytes_for(nodes_ + options_.guests, round->size(), round->total_reads()));
  auto index = std::make_shared<const UseIndex>(std::move(round), nodes_, options_.guests);
  on_engine([&] {
    old_versions_ = std::max(old_versions_, index->extra_versions());
    rounds_.push_back({std::move(index), std::move(charge)});
  });
}

void StoreEngine::begin_round(std::function<void(NodeLease)> ready, std::function<void()> done) {
  on_engine([&] {
    if (running_) throw Error("a round is running; end it first", ExitCode::kUsage);
    require_committed("a round");
    if (rounds_.empty()) throw Error("no round is planned; call plan() first", ExitCode::kUsage);
    ready_ = std::move(ready);
    done_ = std::move(done);
    start_round();
    const std::scoped_lock lock(mutex_);
    round_over_ = false;
  });
}

RoundReport StoreEngine::end_round() {
  if (peers_ != nullptr) {
    // No command: that would throw the failure of a round whose leases are still out.
    may_end_ = true;
    have_commands_ = true;
    notify();
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return round_over_ && with_caller_ == 0; });
  if (failure_) std::rethrow_exception(failure_);
  if (ended_round_ == nullptr) throw Error("no round was begun", ExitCode::kUsage);
  RoundReport report = ended_report_;
  const auto round = std::exchange(ended_round_, nullptr);
  lock.unlock();
  // Computed here, on the caller's thread, while the engine may already write back what is left, and serves others.
  if (!rehearsal_) report.lower_bound_bytes = bound_.add_round(*round, arena_->bytes());
  return report;
}

bool StoreEngine::failed() {
  const std::scoped_lock lock(mutex_);
  return failure_ != nullptr;
}

StoreReport StoreEngine::report() {
  StoreReport report;
  on_engine([&] {
    report.modes = arena_->modes();
    report.modes.push_back(device_report_);
    for (const ModeReport& mode : device_->modes()) report.modes.push_back(mode);
    if (cold_) {
      for (const ModeReport& mode : cold_->modes()) report.modes.push_back(mode);
      report.cold_bytes = cold_->disk_bytes();
      report.cold_bytes_read = cold_->bytes_read();
    }
    report.cold_bytes_written = cold_bytes_written();
    report.bytes_read = slab_io_->bytes_read() + report.cold_bytes_read;
    report.bytes_written = bytes_written();
    report.checkpoint_bytes_written = checkpoint_bytes_;
    report.ram_bytes = options_.ram_bytes;
    for (std::size_t tag = 0; tag < kMemoryTagCount; ++tag) {
      report.memory[tag] = budget_.used(static_cast<MemoryTag>(tag));
    }
    report.state_bytes = nodes_ * layout_.state_bytes();
    StoreOptions resident = options_;
    resident.old_versions = old_versions_;
    report.resident_ram_bytes = MemoryPlan::resident_ram(resident);
    for (const Part part : kParts) {
      report.frames[index(part)] = arena_->frames(part);
      report.slab_bytes += slab(part).used_bytes();
      report.slab_file_bytes += slab(part).disk_bytes();
      report.most_slots[index(part)] = slab(part).most_used();
    }
    for (const SlotEntry& entry : table_->entries()) {
      bool cold = false;
      for (const Part part : kParts) {
        if (!Location::from_word(entry.location[index(part)]).is_cold()) continue;
        cold = true;
        if (!cold_) report.cold_bytes += record_bytes(part);  // as if nothing could be compressed
      }
      report.cold_nodes += cold ? 1 : 0;
    }
  });
  return report;
}

Version StoreEngine::version(NodeId node) {
  if (node >= nodes_) throw Error(fmt::format("there is no node {}; the store has {}", node, nodes_), ExitCode::kUsage);
  Version version = 0;
  on_engine([&] { version = table_->version(node); });
  return version;
}

void StoreEngine::give_back(Flight* flight, bool committed) {
  flight->committed = committed;
  // A list with many pushers and one taker who takes it whole: no lock, no allocation.
  flight->behind = returned_.load(std::memory_order_relaxed);
  while (!returned_.compare_exchange_weak(flight->behind, flight)) {
  }
  if (--leases_out_ <= wake_at_ || !committed) notify();
}

void StoreEngine::notify() {
  // Only a sleeping engine costs a system call.
  const Sleep sleep = sleep_.exchange(Sleep::kAwake);
  if (sleep == Sleep::kInDevice) device_->wake();
  if (sleep == Sleep::kResting) {
    const std::scoped_lock lock(rest_mutex_);
    rested_.notify_one();
  }
}

// The engine thread.

void StoreEngine::run() {
  ask_for_short_slices();
  for (;;) {
    {
      const std::scoped_lock lock(mutex_);
      if (stop_) break;
    }
    try {
      bool busy = run_commands();
      busy |= take_returns();
      busy |= take_cold();
      busy |= take_peers();
      pump();
      serve_waiting();
      if (running_ && finished_steps_ == rounds_.front().index->steps()) finish_round();
      wait_for_io(busy);
    } catch (...) {
      fail(std::current_exception());
    }
  }
  slab_io_->drain();
  cold_worker_.reset();
  // Here, not in the destructor: an io_uring lets go of the arena at once only on the thread that owns it.
  device_.reset();
}

void StoreEngine::wait_for_io(bool busy) {
  slab_io_->submit(relaxed() ? std::max(options_.queue_depth, options_.relaxed_queue_depth) : options_.queue_depth);
  Sleep sleep = Sleep::kAwake;
  if (!busy) {
    // Whoever hands something over after this sees the flag and wakes the engine; what came before is seen here.
    sleep = may_rest() ? Sleep::kResting : Sleep::kInDevice;
    sleep_ = sleep;
    if (returned_.load() != nullptr || have_commands_ || cold_worker_->has_results() ||
        (peers_ != nullptr && peers_->has_news())) {
      sleep = Sleep::kAwake;
    }
  }
  const bool stalled = sleep != Sleep::kAwake && running_ && !told_done_ && with_caller_ == 0;
  const bool no_frame = opening_ != nullptr && opening_->loading == 0;
  const bool for_neighbours = guests_loading_ > 0 && slab_io_->idle();
  const auto start = stalled ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
  if (sleep == Sleep::kResting) rest();
  slab_io_->collect(sleep == Sleep::kInDevice ? WaitMode::kBlock : WaitMode::kPoll,
                    [this](FrameId id, IoRequest::Op op) { transfer_finished(id, op); });
  if (stalled) {
    const Stall stall = for_neighbours ? Stall::kNeighbours : no_frame ? Stall::kWriteBack : Stall::kRead;
    const auto end = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(end - start).count();
    round_report_.stalled_seconds += seconds;
    if (stall == Stall::kNeighbours) round_report_.neighbour_stalled_seconds += seconds;
    if (stall == Stall::kWriteBack) round_report_.write_stalled_seconds += seconds;
    if (options_.on_stall) options_.on_stall(stall, start, end);
  }
  sleep_ = Sleep::kAwake;
}

// Steps wait for a worker, and no other rank's step may be waiting for a record of this one. (One that asks now waits
// for what is under way already, a deep queue: some milliseconds, and ranks ask ahead of use.)
bool StoreEngine::relaxed() const {
  return options_.workers > 0 && leases_out_ > options_.workers + 1 && serving_ == 0 && !no_frame_to_serve_;
}

// While it is relaxed, nobody waits for the engine: completions are left to pile up, and so are leases given back,
// until half of the steps that wait are gone. Every wake-up less is a worker that is not interrupted.
bool StoreEngine::may_rest() {
  const bool enough = relaxed() && !slab_io_->queued();
  wake_at_ = enough ? (leases_out_ + options_.workers) / 2 : std::numeric_limits<std::uint32_t>::max();
  // In a rehearsal the device plays the workers, so the engine sleeps nowhere else.
  return !rehearsal_ && (enough || slab_io_->idle());
}

void StoreEngine::rest() {
  std::unique_lock lock(rest_mutex_);
  const auto woken = [this] { return sleep_ != Sleep::kResting; };
  if (slab_io_->idle()) {
    rested_.wait(lock, woken);
  } else {
    // A caller may keep its leases for longer than the plan's next step should wait.
    rested_.wait_for(lock, kLongestRest, woken);
  }
}

// Nothing is on its way anywhere, and no other rank reads a frame.
void StoreEngine::settle() {
  const bool was_paused = std::exchange(serving_paused_, true);
  while (!slab_io_->idle() || cold_worker_->outstanding() > 0 || serving_ > 0) {
    bool busy = take_cold();
    busy |= take_peers();
    wait_for_io(busy);
  }
  serving_paused_ = was_paused;
}

bool StoreEngine::run_commands() {
  if (!have_commands_.exchange(false)) return false;
  std::vector<Command*> commands;
  {
    const std::scoped_lock lock(mutex_);
    std::swap(commands, commands_);
  }
  for (Command* command : commands) {
    try {
      {
        // It may have been asked for before the failure that it now comes after.
        const std::scoped_lock lock(mutex_);
        if (failure_) std::rethrow_exception(failure_);
      }
      command->work();
    } catch (const Error& error) {
      command->error = std::current_exception();
      // A refusal leaves the store as it was; anything else may have left it half done.
      if (error.exit_code() != ExitCode::kUsage) fail(command->error);
    } catch (...) {
      command->error = std::current_exception();
      fail(command->error);
    }
    const std::scoped_lock lock(mutex_);
    command->done = true;
    changed_.notify_all();
  }
  return true;
}

bool StoreEngine::take_returns() {
  Flight* const first = returned_.exchange(nullptr);
  if (first == nullptr) return false;
  std::uint32_t count = 0;
  std::exception_ptr cause;
  for (const Flight* flight = first; flight != nullptr; flight = flight->behind) {
    ++count;
    if (flight->error) cause = flight->error;
  }
  with_caller_ -= count;
  {
    const std::scoped_lock lock(mutex_);
    if (failure_) {
      changed_.notify_all();
      return true;
    }
  }
  // Before those that were given up because of it.
  if (cause) std::rethrow_exception(cause);
  for (Flight *flight = first, *behind = nullptr; flight != nullptr; flight = behind) {
    behind = flight->behind;
    if (!flight->committed && writes(flight->kind)) {
      throw Error(fmt::format("node {} was given up by its worker before it was committed", flight->node));
    }
    returned(*flight);
  }
  return true;
}

bool StoreEngine::take_cold() {
  cold_worker_->collect(cold_done_);
  for (const ColdJob& job : cold_done_) --(*cache_)[job.frame].transfers;
  for (const ColdJob& job : cold_done_) {
    if (job.error) std::rethrow_exception(job.error);
    (job.op == ColdJob::Op::kGet ? round_report_.cold_bytes_read : round_report_.cold_bytes_written) +=
        job.record.size();
    if (!cold_ && job.op == ColdJob::Op::kPut) rehearsed_puts_ += job.record.size();
    transfer_finished(job.frame, job.op == ColdJob::Op::kGet ? IoRequest::Op::kRead : IoRequest::Op::kWrite);
  }
  return !cold_done_.empty();
}

void StoreEngine::fail(std::exception_ptr error) {
  running_ = false;
  if (!std::exchange(failed_, true) && options_.on_failure) options_.on_failure(error);
  slab_io_->drain();
  while (cold_worker_->outstanding() > 0) cold_worker_->collect(cold_done_);
  {
    const std::scoped_lock lock(mutex_);
    if (!failure_) failure_ = std::move(error);
  }
  tell_done();
  const std::scoped_lock lock(mutex_);
  round_over_ = true;
  changed_.notify_all();
}

}  // namespace shoal
