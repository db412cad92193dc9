#include "planner/machine.h"

#include <algorithm>
#include <thread>

namespace shoal {

Machine Machine::here() {
  Machine machine;
  machine.cores = std::max(1U, std::thread::hardware_concurrency());
  return machine;
}

}  // namespace shoal
