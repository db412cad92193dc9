// What was requested, what is actually in use, and why: no degraded mode goes unsaid.
#pragma once

#include <string>

namespace shoal {

struct ModeReport {
  std::string what;       // "slab I/O", "page lock", "huge pages", "registered buffers"
  std::string requested;  // "io_uring"
  std::string actual;     // "posix"
  std::string
      reason;  // "io_uring_queue_init: Operation not permitted (errno 1)"; empty when actual is what was requested

  bool degraded() const { return requested != actual; }
};

}  // namespace shoal
