#include "bench/plans.h"

#include <algorithm>
#include <random>
#include <vector>

#include "store/error.h"

namespace shoal::bench {
namespace {

StepKind kind_of(Verb verb) {
  switch (verb) {
    case Verb::kFill: return StepKind::kCreate;
    case Verb::kStream:
    case Verb::kGossipRound: return StepKind::kUpdate;
    case Verb::kRandomRead: return StepKind::kRead;
    default: SHOAL_CHECK(verb == Verb::kInspect); return StepKind::kInspect;
  }
}

// Distinct nodes other than `self` (Floyd's algorithm: no retries, however dense the graph).
void choose_neighbours(NodeId self, NodeId nodes, std::size_t degree, std::mt19937_64& random,
                       std::vector<NodeId>& chosen) {
  chosen.clear();
  const auto others = static_cast<NodeId>(nodes - 1);
  for (auto limit = static_cast<NodeId>(others - degree); limit < others; ++limit) {
    NodeId pick = std::uniform_int_distribution<NodeId>(0, limit)(random);
    if (std::find(chosen.begin(), chosen.end(), pick) != chosen.end()) pick = limit;
    chosen.push_back(pick);
  }
  for (NodeId& node : chosen) node += node >= self ? 1 : 0;
}

}  // namespace

std::shared_ptr<const AccessPlan> Plans::plan(Verb verb, std::uint64_t round) {
  if (verb == Verb::kRandomRead) return std::make_shared<const AccessPlan>(make(verb, round));
  std::shared_ptr<const AccessPlan>& plan = fixed_[verb];
  if (plan == nullptr) plan = std::make_shared<const AccessPlan>(make(verb, 0));
  return plan;
}

AccessPlan Plans::make(Verb verb, std::uint64_t round) const {
  std::mt19937_64 random(seed_ * 1'000'003 + round);
  const StepKind kind = kind_of(verb);
  const std::size_t reads = verb == Verb::kGossipRound ? degree_ : verb == Verb::kRandomRead ? 1 : 0;
  AccessPlan plan;
  plan.reserve(nodes_, nodes_ * reads);
  std::vector<NodeId> chosen;
  for (NodeId node = 0; node < nodes_; ++node) {
    if (verb == Verb::kRandomRead) {
      chosen.assign(1, std::uniform_int_distribution<NodeId>(0, nodes_ - 1)(random));
      plan.add(kind, chosen[0], chosen);
    } else {
      if (reads != 0) choose_neighbours(node, nodes_, reads, random, chosen);
      plan.add(kind, node, chosen);
    }
  }
  return plan;
}

std::uint64_t logical_bytes(const AccessPlan& plan, const StateLayout& layout) {
  const std::uint64_t public_bytes = layout.payload_bytes(Part::kPublic);
  const std::uint64_t both = public_bytes + layout.payload_bytes(Part::kPrivate);
  std::uint64_t bytes = plan.total_reads() * public_bytes;
  for (std::size_t step = 0; step < plan.size(); ++step) {
    if (reads_own(plan.kind(step))) bytes += both;
    if (writes(plan.kind(step))) bytes += both;
  }
  return bytes;
}

}  // namespace shoal::bench
