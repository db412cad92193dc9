// Threads for the length of one round.
#pragma once

#include <functional>

#include "bench/engine.h"

namespace shoal::bench {

// Runs body(0) ... body(threads - 1), each on its own thread, and waits. Throws the first exception of any of them.
void run_on_threads(unsigned threads, const std::function<void(unsigned)>& body);

// For engines that fetch a step's data when they come to it: every step of the plan on one of the threads, in plan
// order as threads become free, timed. After an exception no further step is started.
OperationTimes run_steps(const AccessPlan& plan, unsigned threads,
                         const std::function<void(unsigned thread, std::size_t step)>& body);

}  // namespace shoal::bench
