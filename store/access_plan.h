// One round, written down before it starts: which nodes are worked on, in which order, and whose public records each
// reads.
//
// The store reads ahead along it and evicts by it; it never guesses. Build it, then share it as const.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "store/types.h"

namespace shoal {

enum class StepKind : std::uint8_t {
  kCreate,   // the node's first (or a wholly new) state: nothing of its own is read
  kUpdate,   // current public and private state in, next public version and private state out
  kInspect,  // current public and private state, both read only
  kRead,     // the listed public records only
};

class AccessPlan {
 public:
  AccessPlan() = default;

  void reserve(std::size_t steps, std::size_t reads, std::size_t held = 0);
  void add(StepKind kind, NodeId node, std::span<const NodeId> reads = {});
  // The node's current public record is read by others, at any time in the round.
  void hold(NodeId node) { held_.push_back(node); }

  std::size_t size() const { return nodes_.size(); }
  StepKind kind(std::size_t step) const { return kinds_[step]; }
  NodeId node(std::size_t step) const { return nodes_[step]; }
  std::span<const NodeId> reads(std::size_t step) const {
    return {reads_.data() + ends_[step], reads_.data() + ends_[step + 1]};
  }
  std::span<const NodeId> held() const { return held_; }
  std::size_t total_reads() const { return reads_.size(); }
  std::size_t max_reads() const { return max_reads_; }
  std::uint64_t bytes() const;                                               // of memory
  static std::uint64_t bytes_for(std::uint64_t steps, std::uint64_t reads);  // when reserved exactly

 private:
  std::vector<StepKind> kinds_;
  std::vector<NodeId> nodes_;
  std::vector<std::uint64_t> ends_ = {0};
  std::vector<NodeId> reads_;
  std::vector<NodeId> held_;
  std::size_t max_reads_ = 0;
};

// Does the step touch the node's own current public record, its private record; does it leave new versions behind?
constexpr bool reads_own(StepKind kind) { return kind == StepKind::kUpdate || kind == StepKind::kInspect; }
constexpr bool uses_private(StepKind kind) { return kind != StepKind::kRead; }
constexpr bool writes(StepKind kind) { return kind == StepKind::kCreate || kind == StepKind::kUpdate; }

}  // namespace shoal
