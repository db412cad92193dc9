#include "pipeline/node_pipeline.h"

#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_scheduler_observer.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <vector>

#include "store/error.h"

namespace shoal {
namespace {

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

class WorkerStart : public tbb::task_scheduler_observer {
 public:
  WorkerStart(tbb::task_arena& arena, void (*start)(unsigned), unsigned intra_op)
      : tbb::task_scheduler_observer(arena), start_(start), intra_op_(intra_op) {
    if (start_ != nullptr) observe(true);
  }
  ~WorkerStart() override { observe(false); }
  void on_scheduler_entry(bool) override { start_(intra_op_); }

 private:
  void (*start_)(unsigned);
  unsigned intra_op_;
};

// What travels through the graph: a node that is under way. One per place of the store, so a message is a pointer.
struct Traveller {
  NodeLease lease;
};

// One worker's share of a round; a cache line each.
struct alignas(64) WorkerTimes {
  Clock::duration mix{};
  Clock::duration compute{};
  Clock::time_point last;  // when it finished its last stage
};

}  // namespace

class NodePipeline::Flow {
 public:
  Flow(StateStore& store, unsigned threads, Trace* trace, void (*start_worker)(unsigned), unsigned intra_op)
      : store_(store),
        trace_(trace),
        // More than the cores, where asked for: TBB's own limit is the cores. One extra for the store's callbacks.
        parallelism_(tbb::global_control::max_allowed_parallelism, threads + 1),
        arena_(static_cast<int>(threads)),
        worker_start_(arena_, start_worker, intra_op),
        travellers_(store.places()),
        worker_times_(threads) {
    arena_.execute([&] { build(); });
  }

  RoundReport run(StepWork& work, const std::function<void()>& before_end) {
    work_ = &work;
    not_begun_ = nullptr;
    failed_ = false;
    waited_ = 0;
    const Clock::time_point start = Clock::now();
    for (WorkerTimes& times : worker_times_) times = {{}, {}, start};
    arena_.execute([&] {
      source_->try_put(tbb::flow::continue_msg());
      graph_->wait_for_all();
    });
    if (not_begun_) std::rethrow_exception(not_begun_);
    const Clock::time_point all_done = Clock::now();
    if (before_end && !store_.failed()) before_end();
    waited_at_end_ = Clock::now() - all_done;
    const RoundReport report = store_.end_round();
    note(start, report);
    return report;
  }

  unsigned threads() const { return static_cast<unsigned>(worker_times_.size()); }
  const RoundTimes& times() const { return times_; }

 private:
  using Source = tbb::flow::async_node<tbb::flow::continue_msg, Traveller*>;

  void build() {
    graph_ = std::make_unique<tbb::flow::graph>();
    source_ =
        std::make_unique<Source>(*graph_, tbb::flow::unlimited,
                                 [this](tbb::flow::continue_msg, Source::gateway_type& gateway) { fetch(gateway); });
    mix_ = std::make_unique<tbb::flow::function_node<Traveller*, Traveller*>>(
        *graph_, threads(), [this](Traveller* traveller) { return mix(traveller); });
    compute_ = std::make_unique<tbb::flow::function_node<Traveller*, Traveller*>>(
        *graph_, threads(), [this](Traveller* traveller) { return compute(traveller); });
    write_back_ = std::make_unique<tbb::flow::function_node<Traveller*>>(
        *graph_, tbb::flow::unlimited, [this](Traveller* traveller) { write_back(traveller); });
    tbb::flow::make_edge(*source_, *mix_);
    tbb::flow::make_edge(*mix_, *compute_);
    tbb::flow::make_edge(*compute_, *write_back_);
  }

  void fetch(Source::gateway_type& gateway) {
    gateway.reserve_wait();
    try {
      store_.begin_round(
          [this, &gateway](NodeLease lease) {
            Traveller& traveller = travellers_[lease.place()];
            traveller.lease = std::move(lease);
            // Nobody can take this node before try_put(), and there is no other: the time is written before it is read.
            if (waiting_.fetch_add(1) == 0) waiting_since_ = Clock::now().time_since_epoch().count();
            gateway.try_put(&traveller);
          },
          [&gateway] { gateway.release_wait(); });
    } catch (...) {
      not_begun_ = std::current_exception();
      gateway.release_wait();
    }
  }

  // The store hears the cause before the first of the leases that are given up because of it.
  template <typename Stage>
  void guarded(NodeLease& lease, Stage stage) {
    if (failed_) return;
    try {
      stage();
    } catch (...) {
      lease.give_up(std::current_exception());
      failed_ = true;
    }
  }

  Traveller* mix(Traveller* traveller) {
    const unsigned worker = NodePipeline::worker();
    const Clock::time_point begin = Clock::now();
    const Clock::time_point since{Clock::duration(waiting_since_.load())};  // does not change before the next line
    if (waiting_.fetch_sub(1) == 1) {
      waited_ += (begin - since).count();
      if (trace_ != nullptr) trace_->add("waiting for compute", Trace::kReadyLane, since, begin);
    }
    WorkerTimes& times = worker_times_[worker];
    if (trace_ != nullptr) trace_->add("waiting for store", worker, times.last, begin);
    guarded(traveller->lease, [&] { work_->mix(traveller->lease, worker); });
    times.last = Clock::now();
    times.mix += times.last - begin;
    draw("mix", worker, begin, traveller->lease);
    return traveller;
  }

  Traveller* compute(Traveller* traveller) {
    const unsigned worker = NodePipeline::worker();
    const Clock::time_point begin = Clock::now();
    guarded(traveller->lease, [&] { work_->compute(traveller->lease, worker); });
    WorkerTimes& times = worker_times_[worker];
    times.last = Clock::now();
    times.compute += times.last - begin;
    draw("compute", worker, begin, traveller->lease);
    return traveller;
  }

  void draw(const char* stage, unsigned worker, Clock::time_point begin, const NodeLease& lease) {
    if (trace_ == nullptr || !lease) return;
    trace_->add(stage, worker, begin, worker_times_[worker].last, lease.node());
  }

  // The store writes when it must; here the worker is done with the memory.
  void write_back(Traveller* traveller) {
    NodeLease lease = std::move(traveller->lease);
    guarded(lease, [&] { lease.commit(); });
  }

  void note(Clock::time_point start, const RoundReport& report) {
    const double workers = threads();
    times_ = {};
    times_.wall = seconds(Clock::now() - start);
    for (const WorkerTimes& worker : worker_times_) {
      times_.mix += seconds(worker.mix) / workers;
      times_.compute += seconds(worker.compute) / workers;
    }
    times_.waiting_for_neighbours = seconds(waited_at_end_) + report.neighbour_stalled_seconds;
    times_.waiting_for_store = std::max(0.0, times_.wall - times_.mix - times_.compute - times_.waiting_for_neighbours);
    times_.waiting_for_write_back = std::min(report.write_stalled_seconds, times_.waiting_for_store);
    times_.waiting_for_compute = seconds(Clock::duration(waited_.load()));
  }

  StateStore& store_;
  Trace* trace_;
  tbb::global_control parallelism_;
  tbb::task_arena arena_;
  WorkerStart worker_start_;
  std::vector<Traveller> travellers_;
  std::vector<WorkerTimes> worker_times_;
  RoundTimes times_;
  Clock::duration waited_at_end_{};

  std::unique_ptr<tbb::flow::graph> graph_;
  std::unique_ptr<Source> source_;
  std::unique_ptr<tbb::flow::function_node<Traveller*, Traveller*>> mix_;
  std::unique_ptr<tbb::flow::function_node<Traveller*, Traveller*>> compute_;
  std::unique_ptr<tbb::flow::function_node<Traveller*>> write_back_;

  StepWork* work_ = nullptr;
  std::atomic<bool> failed_{false};
  std::atomic<std::uint32_t> waiting_{0};       // ready, and no worker has it yet
  std::atomic<std::int64_t> waiting_since_{0};  // it is above 0
  std::atomic<std::int64_t> waited_{0};         // time with waiting_ > 0
  std::exception_ptr not_begun_;                // the round, because
};

NodePipeline::NodePipeline(StateStore& store, unsigned threads, Trace* trace, void (*start_worker)(unsigned),
                           unsigned intra_op)
    : flow_(std::make_unique<Flow>(store, threads, trace, start_worker, intra_op)) {}
NodePipeline::~NodePipeline() = default;
unsigned NodePipeline::threads() const { return flow_->threads(); }
RoundReport NodePipeline::run(StepWork& work, const std::function<void()>& before_end) {
  return flow_->run(work, before_end);
}
const RoundTimes& NodePipeline::times() const { return flow_->times(); }

unsigned NodePipeline::worker() {
  const int index = tbb::this_task_arena::current_thread_index();
  SHOAL_CHECK(index >= 0);
  return static_cast<unsigned>(index);
}

}  // namespace shoal
