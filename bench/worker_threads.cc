#include "bench/worker_threads.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace shoal::bench {

void run_on_threads(unsigned threads, const std::function<void(unsigned)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  {
    std::vector<std::jthread> workers;
    workers.reserve(threads);
    for (unsigned i = 0; i < threads; ++i) {
      workers.emplace_back([&, i] {
        try {
          body(i);
        } catch (...) {
          const std::scoped_lock lock(mutex);
          if (!first) first = std::current_exception();
        }
      });
    }
  }
  if (first) std::rethrow_exception(first);
}

OperationTimes run_steps(const AccessPlan& plan, unsigned threads,
                         const std::function<void(unsigned thread, std::size_t step)>& body) {
  using Clock = std::chrono::steady_clock;
  std::atomic<std::size_t> next_step = 0;
  std::vector<OperationTimes> times(threads);
  run_on_threads(threads, [&](unsigned thread) {
    try {
      auto start = Clock::now();
      for (std::size_t step = next_step++; step < plan.size(); step = next_step++) {
        body(thread, step);
        const auto end = Clock::now();
        times[thread].add(static_cast<std::uint64_t>((end - start).count()));
        start = end;
      }
    } catch (...) {
      next_step = plan.size();
      throw;
    }
  });
  for (unsigned i = 1; i < threads; ++i) times[0].add(times[i]);
  return times[0];
}

}  // namespace shoal::bench
