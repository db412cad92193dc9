#include "store/access_plan.h"

#include <algorithm>

namespace shoal {

void AccessPlan::reserve(std::size_t steps, std::size_t reads, std::size_t held) {
  kinds_.reserve(steps);
  nodes_.reserve(steps);
  ends_.reserve(steps + 1);
  reads_.reserve(reads);
  held_.reserve(held);
}

void AccessPlan::add(StepKind kind, NodeId node, std::span<const NodeId> reads) {
  kinds_.push_back(kind);
  nodes_.push_back(node);
  reads_.insert(reads_.end(), reads.begin(), reads.end());
  ends_.push_back(reads_.size());
  max_reads_ = std::max(max_reads_, reads.size());
}

std::uint64_t AccessPlan::bytes() const {
  return kinds_.capacity() * sizeof(StepKind) + nodes_.capacity() * sizeof(NodeId) +
         ends_.capacity() * sizeof(std::uint64_t) + (reads_.capacity() + held_.capacity()) * sizeof(NodeId);
}

std::uint64_t AccessPlan::bytes_for(std::uint64_t steps, std::uint64_t reads) {
  return steps * (sizeof(StepKind) + sizeof(NodeId)) + (steps + 1) * sizeof(std::uint64_t) + reads * sizeof(NodeId);
}

}  // namespace shoal
