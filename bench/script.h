// All that one engine is asked to do, in order: the user's verbs, each repeated, and what they need before them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "bench/verb.h"

namespace shoal::bench {

struct ScriptItem {
  Verb verb = Verb::kFill;
  std::optional<std::size_t> workload;  // index of the user's verb that it belongs to; none: preparation or last check
  bool measured = false;                // else warm-up or preparation
};

struct ScriptOptions {
  unsigned rounds = 5;
  unsigned warmup = 1;
};

// Ends with an inspect round over all records. `fill` is measured once, on an empty engine; every measured checkpoint
// follows an unmeasured stream round, or there would be nothing to do; demote and promote undo each other unmeasured
// between repetitions.
std::vector<ScriptItem> make_script(std::span<const Verb> verbs, const ScriptOptions& options);

}  // namespace shoal::bench
