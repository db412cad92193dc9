#include "trainer/share.h"

#include <algorithm>

namespace shoal {

Share::Share(NodeId records) : nodes_(records) {}

Share::Share(const Graph& graph, RankPartition partition, unsigned rank)
    : rank_(rank), ranks_(partition.ranks), owner_(std::move(partition.owner)), local_(graph.nodes()) {
  std::vector<NodeId> count(ranks_, 0);
  for (NodeId node = 0; node < graph.nodes(); ++node) {
    local_[node] = count[owner_[node]]++;
    if (owner_[node] != rank_) continue;
    own_.push_back(node);
    reads_ += graph.degree(node);
    for (const NodeId neighbour : graph.neighbours(node)) {
      if (owner_[neighbour] != rank_) guests_.push_back(neighbour);
    }
  }
  nodes_ = static_cast<NodeId>(own_.size());
  std::sort(guests_.begin(), guests_.end());
  guests_.erase(std::unique(guests_.begin(), guests_.end()), guests_.end());
  guests_.shrink_to_fit();
  forget_versions(1);
}

LocalPlan Share::localize(const RoundPlan& round) {
  if (whole()) return {round, {}};
  if (round.accesses != last_global_) {
    last_local_ = translate(round);
    last_global_ = round.accesses;
  }
  LocalPlan result{last_local_, guest_version_};
  for (std::size_t step = 0; step < round.accesses->size(); ++step) {
    const NodeId node = round.accesses->node(step);
    if (owner_[node] == rank_ || !writes(round.accesses->kind(step))) continue;
    const auto guest = std::lower_bound(guests_.begin(), guests_.end(), node);
    if (guest != guests_.end() && *guest == node) ++guest_version_[static_cast<std::size_t>(guest - guests_.begin())];
  }
  return result;
}

RoundPlan Share::translate(const RoundPlan& round) const {
  if (whole()) return round;
  const AccessPlan& global = *round.accesses;
  RoundPlan local;
  auto plan = std::make_shared<AccessPlan>();
  std::size_t steps = 0;
  std::size_t total_reads = 0;
  for (std::size_t step = 0; step < global.size(); ++step) {
    if (owner_[global.node(step)] != rank_) continue;
    ++steps;
    total_reads += global.reads(step).size();
  }
  plan->reserve(steps, total_reads);
  std::vector<NodeId> reads;
  std::vector<bool> held(nodes_, false);
  for (std::size_t step = 0; step < global.size(); ++step) {
    if (owner_[global.node(step)] != rank_) {
      for (const NodeId node : global.reads(step)) {
        if (owner_[node] == rank_) held[local_[node]] = true;
      }
      continue;
    }
    reads.clear();
    for (const NodeId node : global.reads(step)) {
      const bool own = owner_[node] == rank_;
      const auto guest = own ? guests_.end() : std::lower_bound(guests_.begin(), guests_.end(), node);
      reads.push_back(own ? local_[node] : nodes_ + static_cast<NodeId>(guest - guests_.begin()));
    }
    plan->add(global.kind(step), local_[global.node(step)], reads);
    if (!round.local_steps.empty()) local.local_steps.push_back(round.local_steps[step]);
  }
  plan->reserve(steps, total_reads, static_cast<std::size_t>(std::count(held.begin(), held.end(), true)));
  for (NodeId node = 0; node < nodes_; ++node) {
    if (held[node]) plan->hold(node);
  }
  local.accesses = std::move(plan);
  return local;
}

std::vector<NeighbourReads::Guest> Share::guest_places() const {
  std::vector<NeighbourReads::Guest> places;
  places.reserve(guests_.size());
  for (const NodeId node : guests_) places.push_back({owner_[node], local_[node]});
  return places;
}

std::vector<NodeId> Share::nodes_of_ranks() const {
  std::vector<NodeId> count(ranks_, 0);
  for (const std::uint16_t owner : owner_) ++count[owner];
  return count;
}

std::uint64_t Share::bytes() const {
  return owner_.size() * (sizeof(owner_[0]) + sizeof(NodeId)) + own_.size() * sizeof(NodeId) +
         guests_.size() * (sizeof(NodeId) + 4 * sizeof(Version));
}

}  // namespace shoal
