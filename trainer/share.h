// What of the population is this rank's: which nodes its store holds, under which numbers, and whose models it reads
// from other ranks.
//
// A store numbers its own nodes from 0 on and its guests, the neighbours that other ranks own, after them. One rank
// alone owns all nodes under their own numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "comm/neighbour_reads.h"
#include "trainer/algorithm.h"
#include "trainer/graph.h"
#include "trainer/rank_partition.h"

namespace shoal {

// A round as this rank's store runs it.
struct LocalPlan {
  RoundPlan plan;
  std::vector<Version> guest_versions;  // that the round reads
};

class Share {
 public:
  // All of it: one rank, or an algorithm whose every rank keeps the same records.
  explicit Share(NodeId records);
  Share(const Graph& graph, RankPartition partition, unsigned rank);

  bool whole() const { return owner_.empty(); }
  NodeId nodes() const { return nodes_; }
  NodeId guests() const { return static_cast<NodeId>(guests_.size()); }
  std::uint64_t reads() const { return reads_; }  // neighbours of own nodes, each as often as it is one
  NodeId global(NodeId local) const { return whole() ? local : own_[local]; }
  bool owns(NodeId global) const { return whole() || owner_[global] == rank_; }
  NodeId local(NodeId global) const { return number_at_owner(global); }  // of an own node
  const std::vector<NodeId>& own() const { return own_; }                // ascending; empty when whole

  // The round's steps that are this rank's, under the store's numbers.
  RoundPlan translate(const RoundPlan& round) const;
  // For rounds in order, each once. Guests' versions follow from who acted before.
  LocalPlan localize(const RoundPlan& round);
  void forget_versions(Version all) { guest_version_.assign(guests_.size(), all); }

  unsigned owner(NodeId global) const { return whole() ? 0 : owner_[global]; }
  NodeId number_at_owner(NodeId global) const { return whole() ? global : local_[global]; }

  // For NeighbourReads.
  std::vector<NeighbourReads::Guest> guest_places() const;
  std::vector<NodeId> nodes_of_ranks() const;

  std::uint64_t bytes() const;

 private:
  NodeId nodes_ = 0;
  std::uint64_t reads_ = 0;
  unsigned rank_ = 0;
  unsigned ranks_ = 1;
  std::vector<std::uint16_t> owner_;  // by global node; empty: whole
  std::vector<NodeId> local_;         // by global node: its number at its owner
  std::vector<NodeId> own_;           // global nodes, by local number
  std::vector<NodeId> guests_;        // global nodes, ascending
  std::vector<Version> guest_version_;
  std::shared_ptr<const AccessPlan> last_global_;  // rounds that are all alike are translated once
  RoundPlan last_local_;
};

}  // namespace shoal
