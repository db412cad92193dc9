#include "store/use_index.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/error.h"

namespace shoal {
namespace {

// Calls `use(node)` for each public record the step uses, once each: a step that names a record twice still uses it
// once.
template <typename Use>
void for_each_use(const AccessPlan& plan, std::uint32_t step, std::vector<std::uint32_t>& last_step, const Use& use) {
  const auto once = [&](NodeId node) {
    if (last_step[node] == step) return;
    last_step[node] = step;
    use(node);
  };
  if (reads_own(plan.kind(step))) once(plan.node(step));
  for (const NodeId node : plan.reads(step)) once(node);
}

}  // namespace

UseIndex::UseIndex(std::shared_ptr<const AccessPlan> plan, NodeId nodes, NodeId guests)
    : plan_(std::move(plan)), begins_(nodes + guests + std::size_t{1}, 0), private_step_(nodes + guests, kNever) {
  if (plan_->size() >= kNever) throw Error("a round has at most 2^32 - 2 steps", ExitCode::kUsage);
  for (std::uint32_t step = 0; step < steps(); ++step) {
    const auto check = [&](NodeId node, NodeId end) {
      if (node < end) return;
      throw Error(fmt::format("step {} of the plan names node {}, but the store has {} nodes", step, node, end),
                  ExitCode::kUsage);
    };
    for (const NodeId node : plan_->reads(step)) check(node, nodes + guests);
    if (!uses_private(plan_->kind(step))) continue;
    const NodeId node = plan_->node(step);
    check(node, nodes);
    if (private_step_[node] != kNever) {
      throw Error(
          fmt::format("node {} acts in steps {} and {}; a node acts once in a round", node, private_step_[node], step),
          ExitCode::kUsage);
    }
    private_step_[node] = step;
  }

  for (const NodeId node : plan_->held()) {
    if (node >= nodes) throw Error(fmt::format("the plan holds node {} of {}", node, nodes), ExitCode::kUsage);
  }

  std::vector<std::uint32_t> last_step(nodes + guests, kNever);
  for (std::uint32_t step = 0; step < steps(); ++step) {
    for_each_use(*plan_, step, last_step, [&](NodeId node) { ++begins_[node + std::size_t{1}]; });
  }
  for (std::size_t i = 1; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
  positions_.resize(begins_.back());
  // Filled back to front, each node's end moves down to its begin; so steps run backwards.
  std::vector<std::uint64_t> ends(begins_.begin() + 1, begins_.end());
  std::fill(last_step.begin(), last_step.end(), kNever);
  for (std::uint32_t step = steps(); step-- > 0;) {
    for_each_use(*plan_, step, last_step, [&](NodeId node) { positions_[--ends[node]] = step; });
  }
  count_extra_versions(nodes, guests);
}

void UseIndex::count_extra_versions(NodeId nodes, NodeId guests) {
  std::vector<std::int32_t> change(steps() + std::size_t{1}, 0);
  std::vector<bool> held(nodes, false);
  for (const NodeId node : plan_->held()) held[node] = true;
  for (NodeId guest = nodes; guest < nodes + guests; ++guest) {
    if (uses(guest).empty()) continue;
    ++change[uses(guest).front()];
    --change[uses(guest).back() + std::size_t{1}];
  }
  for (NodeId node = 0; node < nodes; ++node) {
    if (!acts(node)) continue;
    const std::uint32_t act = private_step_[node];
    const std::uint32_t last = uses(node).empty() ? act : std::max(act, uses(node).back());
    // While its own step runs, both versions are there.
    ++change[act];
    if (!held[node]) --change[last + std::size_t{1}];
  }
  std::int64_t extra = 0;
  for (const std::int32_t step_change : change) {
    extra += step_change;
    extra_versions_ = std::max(extra_versions_, static_cast<std::uint64_t>(extra));
  }
}

std::uint64_t UseIndex::bytes_for(NodeId nodes, std::uint64_t steps, std::uint64_t reads) {
  const std::uint64_t kept =
      nodes * (sizeof(std::uint64_t) + sizeof(std::uint32_t)) + (steps + reads) * sizeof(std::uint32_t);
  const std::uint64_t while_building =
      nodes * (sizeof(std::uint64_t) + sizeof(std::uint32_t)) + steps * sizeof(std::uint32_t);
  return kept + while_building;
}

}  // namespace shoal
