// Shoal's store as an engine: plans one round ahead, workers take leases from a ReadyQueue.
#include <algorithm>
#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "bench/engine_kinds.h"
#include "bench/worker_threads.h"
#include "store/error.h"
#include "store/ready_queue.h"
#include "store/state_store.h"

namespace shoal::bench {
namespace {

StoreOptions store_options(const EngineOptions& options, IoEngine io) {
  StoreOptions result;
  result.directory = options.directory / "store";
  result.layout = options.layout;
  result.nodes = options.nodes;
  result.ram_bytes = options.ram_bytes;
  result.warm_bytes = options.warm_bytes;
  result.max_reads_per_step = std::max<std::size_t>(options.degree, 1);
  result.rounds_ahead = 2;
  result.io = io;
  if (options.queue_depth != 0) result.queue_depth = result.relaxed_queue_depth = options.queue_depth;
  result.submit_batch = options.submit_batch;
  result.prefetch_bytes = options.prefetch_bytes;
  result.workers = options.threads;
  return result;
}

class ShoalEngine final : public Engine {
 public:
  ShoalEngine(const EngineOptions& options, IoEngine io)
      : options_(store_options(options, io)), threads_(options.threads) {
    store_ = options.open_as == OpenAs::kNew ? StateStore::create(options_) : StateStore::open(options_);
  }

  RoundFigures run_round(const std::shared_ptr<const AccessPlan>& round, const std::shared_ptr<const AccessPlan>& next,
                         const Work& work) override {
    if (planned_ == nullptr) store_->plan(round);
    SHOAL_CHECK(planned_ == nullptr || planned_ == round);
    planned_ = next;
    if (next != nullptr) store_->plan(next);

    ReadyQueue queue;
    std::vector<OperationTimes> times(threads_);
    store_->begin_round([&](NodeLease lease) { queue.push(std::move(lease)); }, [&] { queue.close(); });
    std::exception_ptr worker_error;
    try {
      run_on_threads(threads_, [&](unsigned thread) {
        try {
          work_off(queue, *round, work, times[thread]);
        } catch (...) {
          // Leases left in the queue would keep the round from ending; to drop one that writes fails it, as it should.
          while (queue.pop()) continue;
          throw;
        }
      });
    } catch (...) {
      worker_error = std::current_exception();
    }
    RoundReport report;
    try {
      report = store_->end_round();
    } catch (const Error&) {
      // The worker's own error is the cause: a lease that it dropped fails the round.
      if (!worker_error) throw;
    }
    if (worker_error) std::rethrow_exception(worker_error);

    RoundFigures figures;
    for (const OperationTimes& each : times) figures.operations.add(each);
    figures.lower_bound_bytes = report.lower_bound_bytes;
    figures.store_bytes = report.slab_bytes_read + report.slab_bytes_written;
    figures.stalled_seconds = report.stalled_seconds;
    return figures;
  }

  bool supports(Verb /*verb*/) const override { return true; }

  void checkpoint() override { store_->checkpoint("shoal-store-bench"); }

  void restore() override {
    store_.reset();
    planned_.reset();
    store_ = StateStore::open(options_);
  }

  void demote(std::span<const NodeId> nodes) override { store_->demote(nodes); }
  void promote(std::span<const NodeId> nodes) override { store_->promote(nodes); }

  void verify() override {
    const VerifyReport report = store_->verify();
    if (!report.problems.empty()) throw Error(report.problems.front());
  }

  nlohmann::json facts() const override {
    const StoreReport report = store_->report();
    nlohmann::json facts;
    for (const ModeReport& mode : report.modes) {
      facts["modes"].push_back(
          {{"what", mode.what}, {"requested", mode.requested}, {"actual", mode.actual}, {"reason", mode.reason}});
    }
    for (std::size_t tag = 0; tag < kMemoryTagCount; ++tag) {
      facts["memory"][std::string(name(static_cast<MemoryTag>(tag)))] = report.memory[tag];
    }
    facts["frames"] = {{"public", report.frames[index(Part::kPublic)]},
                       {"private", report.frames[index(Part::kPrivate)]}};
    facts["slab_bytes"] = report.slab_bytes;
    facts["cold_bytes"] = report.cold_bytes;
    facts["cold_nodes"] = report.cold_nodes;
    return facts;
  }

 private:
  static void work_off(ReadyQueue& queue, const AccessPlan& plan, const Work& work, OperationTimes& times) {
    using Clock = std::chrono::steady_clock;
    std::vector<const std::byte*> reads;
    auto start = Clock::now();
    while (std::optional<NodeLease> lease = queue.pop()) {
      reads.clear();
      for (std::size_t k = 0; k < lease->reads(); ++k) reads.push_back(lease->read(k));
      work({lease->kind(), lease->node(), plan.reads(lease->step()), lease->current(), lease->next(),
            lease->private_state(), reads});
      lease->commit();
      const auto end = Clock::now();
      times.add(static_cast<std::uint64_t>((end - start).count()));
      start = end;
    }
  }

  StoreOptions options_;
  unsigned threads_;
  std::unique_ptr<StateStore> store_;
  std::shared_ptr<const AccessPlan> planned_;  // given to the store, not yet run
};

}  // namespace

std::unique_ptr<Engine> make_shoal_engine(const EngineOptions& options, IoEngine io) {
  return std::make_unique<ShoalEngine>(options, io);
}

std::uint64_t shoal_minimum_ram(const EngineOptions& options) {
  return StateStore::minimum_ram(store_options(options, IoEngine::kAuto));
}

}  // namespace shoal::bench
