// A plan turned around: for every node, when in the round its public record is used, and when it acts.
//
// What Belady's rule needs to know (the next use of a record) is a look into this; so is the count of uses after which
// an old version is dead. Immutable, shared by the engine and the lower bound.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "store/access_plan.h"

namespace shoal {

inline constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

class UseIndex {
 public:
  // Throws a usage Error for a plan that names a node out of range or makes a node act twice. Nodes from `nodes` on are
  // guests: they are only read.
  UseIndex(std::shared_ptr<const AccessPlan> plan, NodeId nodes, NodeId guests = 0);

  const AccessPlan& plan() const { return *plan_; }
  std::uint32_t steps() const { return static_cast<std::uint32_t>(plan_->size()); }
  // Steps that use the node's current public record, ascending, each step once.
  std::span<const std::uint32_t> uses(NodeId node) const {
    return {positions_.data() + begins_[node], positions_.data() + begins_[node + std::size_t{1}]};
  }
  // The step that uses the node's private record, and the one that writes its next state; kNever if none does.
  std::uint32_t private_step(NodeId node) const { return private_step_[node]; }
  bool acts(NodeId node) const { return private_step_[node] != kNever && writes(plan_->kind(private_step_[node])); }
  // The most public versions alive at once when each old one goes with its last use (one that is held, at the end) and
  // a guest's is there from its first to its last, beyond one for every node.
  std::uint64_t extra_versions() const { return extra_versions_; }

  static std::uint64_t bytes_for(NodeId nodes, std::uint64_t steps, std::uint64_t reads);

 private:
  void count_extra_versions(NodeId nodes, NodeId guests);

  std::shared_ptr<const AccessPlan> plan_;
  std::vector<std::uint64_t> begins_;
  std::vector<std::uint32_t> positions_;
  std::vector<std::uint32_t> private_step_;
  std::uint64_t extra_versions_ = 0;
};

}  // namespace shoal
