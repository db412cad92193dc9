#include "store/store_engine.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <span>
#include <utility>

#include "store/error.h"
#include "store/size_text.h"

namespace shoal {
namespace {

// Frames kept free or on their way to be, so that a fetch seldom waits for a write: as many as the device has in
// flight.
constexpr std::uint32_t kMostReserve = 16;
constexpr std::chrono::milliseconds kLongestRest(5);

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

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

std::uint64_t StoreEngine::bytes_per_flight(std::size_t max_reads) {
  return sizeof(Flight) + max_reads * (sizeof(FrameId) + 1 + sizeof(void*)) + (max_reads + 3) * sizeof(std::uint32_t);
}

StoreEngine::StoreEngine(const StoreOptions& options, Start start)
    : options_(options),
      layout_(options.layout),
      nodes_(options.nodes),
      memory_(MemoryPlan::for_options(options)),
      cold_directory_(options.cold_directory.empty() ? options.directory / "cold" : options.cold_directory),
      budget_(options.ram_bytes),
      table_charge_(budget_.charge(MemoryTag::kTables, memory_.tables)),
      io_charge_(budget_.charge(MemoryTag::kIo, memory_.io)),
      uses_left_(nodes_ + options.guests, 0),
      use_cursor_(nodes_ + options.guests, 0),
      seen_step_(nodes_ + options.guests, kNever),
      acted_(nodes_ + options.guests, 0),
      bound_(layout_, nodes_),
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
  SHOAL_CHECK(peers_ == nullptr || (memory_.serving > 0 && options_.listing.size() == nodes_));
  if (start == Start::kCreate) {
    create_files();
  } else {
    open_files();
  }
  resident_ram_bytes_ = memory_.total() - memory_.arena + nodes_ * layout_.state_bytes();
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
    const std::uint64_t arena = (nodes_ + index->extra_versions() + memory_.flights + memory_.serving + kMostReserve) *
                                    record_bytes(Part::kPublic) +
                                (nodes_ + std::uint64_t{memory_.flights}) * record_bytes(Part::kPrivate);
    resident_ram_bytes_ = std::max(resident_ram_bytes_, memory_.total() - memory_.arena + arena);
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
  report.lower_bound_bytes = bound_.add_round(*round, arena_->bytes());
  return report;
}

StoreReport StoreEngine::report() {
  StoreReport report;
  on_engine([&] {
    report.modes = arena_->modes();
    report.modes.push_back(device_report_);
    for (const ModeReport& mode : device_->modes()) report.modes.push_back(mode);
    for (const ModeReport& mode : cold_->modes()) report.modes.push_back(mode);
    report.ram_bytes = options_.ram_bytes;
    for (std::size_t tag = 0; tag < kMemoryTagCount; ++tag) {
      report.memory[tag] = budget_.used(static_cast<MemoryTag>(tag));
    }
    report.state_bytes = nodes_ * layout_.state_bytes();
    report.resident_ram_bytes = resident_ram_bytes_;
    for (const Part part : kParts) {
      report.frames[index(part)] = arena_->frames(part);
      report.slab_bytes += slab(part).used_bytes();
    }
    report.cold_bytes = cold_->disk_bytes();
    for (const SlotEntry& entry : table_->entries()) {
      report.cold_nodes +=
          Location::from_word(entry.location[0]).is_cold() || Location::from_word(entry.location[1]).is_cold();
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
  if (--leases_out_ <= wake_at_) notify();
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
  slab_io_->submit();
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
  const double start = stalled ? seconds_now() : 0;
  if (sleep == Sleep::kResting) rest();
  slab_io_->collect(sleep == Sleep::kInDevice ? WaitMode::kBlock : WaitMode::kPoll,
                    [this](FrameId id, IoRequest::Op op) { transfer_finished(id, op); });
  if (stalled) {
    const double seconds = seconds_now() - start;
    round_report_.stalled_seconds += seconds;
    if (for_neighbours) {
      round_report_.neighbour_stalled_seconds += seconds;
    } else if (no_frame) {
      round_report_.write_stalled_seconds += seconds;
    }
  }
  sleep_ = Sleep::kAwake;
}

// While steps wait for a worker, nobody waits for the engine: completions are left to pile up, and so are leases given
// back, until half of those steps are gone. Every wake-up less is a worker that is not interrupted.
bool StoreEngine::may_rest() {
  const std::uint32_t out = leases_out_;
  // Other ranks' workers may be waiting.
  const bool enough = options_.workers > 0 && out > options_.workers + 1 && !slab_io_->queued() && serving_ == 0;
  wake_at_ = enough ? options_.workers + (out - options_.workers) / 2 : std::numeric_limits<std::uint32_t>::max();
  return enough || slab_io_->idle();
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
  for (const Flight* flight = first; flight != nullptr; flight = flight->behind) ++count;
  with_caller_ -= count;
  {
    const std::scoped_lock lock(mutex_);
    if (failure_) {
      changed_.notify_all();
      return true;
    }
  }
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
    transfer_finished(job.frame, job.op == ColdJob::Op::kGet ? IoRequest::Op::kRead : IoRequest::Op::kWrite);
  }
  return !cold_done_.empty();
}

void StoreEngine::fail(std::exception_ptr error) {
  running_ = false;
  failed_ = true;
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

// Rounds.

void StoreEngine::start_round() {
  const UseIndex& round = *rounds_.front().index;
  for (NodeId node = 0; node < uses_left_.size(); ++node) {
    uses_left_[node] = static_cast<std::uint32_t>(round.uses(node).size());
  }
  for (const NodeId node : round.plan().held()) ++uses_left_[node];
  const auto guests = std::span(uses_left_).subspan(nodes_);
  for (const auto& flight : flights_) {
    if (flight->serving && !flight->reads.empty()) ++uses_left_[flight->node];
  }
  std::fill(use_cursor_.begin(), use_cursor_.end(), 0);
  std::fill(seen_step_.begin(), seen_step_.end(), kNever);
  round_report_ = RoundReport{};
  round_report_.steps = round.steps();
  round_report_.guests =
      static_cast<std::uint64_t>(std::count_if(guests.begin(), guests.end(), [](auto n) { return n > 0; }));
  round_report_.seconds = -seconds_now();
  round_report_.slab_bytes_read = slab_io_->bytes_read();
  round_report_.slab_bytes_written = slab_io_->bytes_written();
  fit_arena();
  relieve_warm();
  for (FrameId id = 0; id < cache_->count(); ++id) {
    const Cached& entry = (*cache_)[id];
    if (entry.phase == Phase::kEmpty) continue;
    PlanTime time = kUnknownTime;
    if (entry.part == Part::kPublic) {
      time = round.uses(entry.node).empty() ? later_public_use(entry.node) : base_ + round.uses(entry.node).front();
    } else {
      const std::uint32_t step = round.private_step(entry.node);
      time = step == kNever ? later_private_use(entry.node) : base_ + step;
    }
    cache_->set_next_use(id, time);
  }
  cursor_ = 0;
  finished_steps_ = 0;
  told_done_ = may_end_ = false;
  running_ = true;
}

void StoreEngine::finish_round() {
  const UseIndex& round = *rounds_.front().index;
  if (peers_ != nullptr) {
    // Others may still read what this round has replaced here.
    if (!std::exchange(told_done_, true)) tell_done();
    if (!may_end_ || serving_ > 0) return;
    for (const NodeId node : round.plan().held()) {
      --uses_left_[node];
      retire_if_dead(node);
    }
  }
  for (std::uint32_t step = 0; step < round.steps(); ++step) {
    if (!writes(round.plan().kind(step))) continue;
    const NodeId node = round.plan().node(step);
    table_->flip(node);
    cache_->flip(node);
    acted_[node] = 0;
  }
  running_ = false;
  base_ += round.steps();
  round_report_.seconds += seconds_now();
  round_report_.slab_bytes_read = slab_io_->bytes_read() - round_report_.slab_bytes_read;
  round_report_.slab_bytes_written = slab_io_->bytes_written() - round_report_.slab_bytes_written;
  tell_done();
  const std::scoped_lock lock(mutex_);
  // The caller gets a copy: what is still on its way to the cold tier counts on in the original.
  ended_report_ = round_report_;
  ended_round_ = rounds_.front().index;
  rounds_.pop_front();
  round_over_ = true;
  changed_.notify_all();
}

// The caller's functions may refer to what it destroys once end_round() returns, so they are called, and let go of,
// before that.
void StoreEngine::tell_done() {
  if (done_) done_();
  ready_ = nullptr;
  done_ = nullptr;
}

// Public records are used at least as often as private ones, so a frame is worth more to them: they get what they can
// use, private records the rest, which for a plan that visits all nodes in a cycle is the optimal fixed share.
void StoreEngine::fit_arena() {
  std::uint64_t extra = 0;
  for (const Round& round : rounds_) extra = std::max(extra, round.index->extra_versions());
  const std::uint64_t public_bytes = record_bytes(Part::kPublic);
  const std::uint64_t private_bytes = record_bytes(Part::kPrivate);
  const std::uint64_t arena = arena_->bytes();
  const std::uint64_t all_public = nodes_ + extra + memory_.flights + memory_.serving;
  const std::uint64_t all_private = nodes_;

  std::uint64_t least_private = std::min<std::uint64_t>(all_private, memory_.flights);
  least_private = std::clamp<std::uint64_t>((arena - memory_.least_public * public_bytes) / private_bytes / 2,
                                            memory_.least_private, least_private);
  std::uint64_t publics = std::min(all_public + kMostReserve, (arena - least_private * private_bytes) / public_bytes);
  publics = std::max<std::uint64_t>(publics, arena_->frames(Part::kPublic));
  const std::uint64_t privates = std::min(all_private + kMostReserve, (arena - publics * public_bytes) / private_bytes);
  if (publics != arena_->frames(Part::kPublic) || privates != arena_->frames(Part::kPrivate)) {
    write_aside([&](const Cached& entry) { return entry.part == Part::kPrivate && entry.frame.number() >= privates; });
    arena_->split(static_cast<std::uint32_t>(publics), static_cast<std::uint32_t>(privates));
  }
  const auto press = [&](Part part, std::uint64_t frames, std::uint64_t all) {
    pressed_[index(part)] = frames < all;
    // A pool that only streams needs a larger share of it on the way out than a cache does.
    const std::uint64_t least = std::clamp<std::uint64_t>(frames / 3, 1, kMostReserve / 2);
    reserve_[index(part)] = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(frames / 16, least, kMostReserve));
  };
  press(Part::kPublic, publics, all_public);
  press(Part::kPrivate, privates, all_private);
}

// Between rounds: what `which` names leaves RAM.
void StoreEngine::write_aside(const std::function<bool(const Cached&)>& which) {
  settle();
  for (FrameId id = 0; id < cache_->count(); ++id) {
    const Cached& entry = (*cache_)[id];
    if (entry.phase != Phase::kEmpty && which(entry)) evict(id);
  }
  settle();
}

PlanTime StoreEngine::later_public_use(NodeId node) const {
  if (is_guest(node)) return kUnknownTime;
  PlanTime base = base_ + rounds_.front().index->steps();
  for (std::size_t i = 1; i < rounds_.size(); ++i) {
    const UseIndex& round = *rounds_[i].index;
    if (!round.uses(node).empty()) return base + round.uses(node).front();
    if (round.acts(node)) return kUnknownTime;
    base += round.steps();
  }
  return kUnknownTime;
}

PlanTime StoreEngine::later_private_use(NodeId node) const {
  PlanTime base = base_ + rounds_.front().index->steps();
  for (std::size_t i = 1; i < rounds_.size(); ++i) {
    const UseIndex& round = *rounds_[i].index;
    if (round.private_step(node) != kNever) return base + round.private_step(node);
    base += round.steps();
  }
  return kUnknownTime;
}

PlanTime StoreEngine::next_public_use(NodeId node, std::uint32_t after_step) {
  const auto uses = rounds_.front().index->uses(node);
  std::uint32_t& at = use_cursor_[node];
  while (at < uses.size() && uses[at] <= after_step) ++at;
  if (at < uses.size()) return base_ + uses[at];
  return rounds_.front().index->acts(node) ? kUnknownTime : later_public_use(node);
}

}  // namespace shoal
