#include <fmt/format.h>

#include "planner/run_description.h"
#include "store/types.h"

namespace shoal {

bool RunChange::same_run(const RunChange& other) const {
  RunChange mine = *this;
  mine.rank = other.rank;
  mine.ram_bytes = other.ram_bytes;
  return mine == other;
}

std::string RunChange::flags() const {
  std::string text;
  const auto add = [&](const char* flag, const auto& value) {
    if (value) text += fmt::format("{}{} {}", text.empty() ? "" : " ", flag, *value);
  };
  // In whole MiB, so that a flag of a few digits is enough.
  const auto size = [](const std::optional<std::uint64_t>& bytes, std::uint64_t more) {
    return bytes ? std::optional(fmt::format("{}MiB", (*bytes + more) >> 20)) : std::nullopt;
  };
  add("--nodes", nodes);
  add("--graph", graph);
  add("--algorithm", algorithm);
  if (plain_sgd) add("--optimizer", std::optional<std::string>("sgd --momentum 0"));
  add("--batch", batch);
  add("--ram", size(ram_bytes, (1 << 20) - 1));
  add("--warm-bytes", size(warm_bytes, 0));
  if (warm_bytes) add("--cold", std::optional<std::string>("DIR"));
  add("--checkpoint-every", checkpoint_every);
  add("--threads", threads);
  add("--ranks", ranks);
  add("--hosts", hosts);
  return text;
}

}  // namespace shoal
