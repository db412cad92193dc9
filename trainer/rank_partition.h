// Which rank owns which node: the same work for each, and few edges between them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/graph.h"

namespace shoal {

struct RankPartition {
  std::vector<std::uint16_t> owner;  // by node
  unsigned ranks = 1;
  std::vector<double> work;  // by rank, expected in a round
};

// What a split makes few of. An algorithm whose nodes read one neighbour at a time pays for edges; one whose nodes read
// all of them in a round pays for records, which a rank gets once for all its nodes. On graphs without communities the
// one costs the other.
enum class Fewest { kCutEdges, kRemoteReads };

// `work` is what is expected of each node in a round; empty: all alike. `order` has every node once, neighbours close
// together (locality_order). Every rank gets a node, and none as much as a node's work more than the mean. Depends on
// the arguments alone. A usage Error if there are more ranks than nodes.
RankPartition split_over_ranks(const Graph& graph, std::span<const float> work, unsigned ranks, std::uint64_t seed,
                               std::span<const NodeId> order, Fewest fewest = Fewest::kCutEdges);

// Of memory, while split_over_ranks() works; `owner` and `work` included, `graph` and `order` not.
std::uint64_t bytes_to_split(NodeId nodes, unsigned ranks);

struct PartitionFigures {
  std::vector<NodeId> nodes;  // by rank
  std::uint64_t cut_edges = 0;
  std::uint64_t remote_reads = 0;      // records that ranks get from others in a round where all read all neighbours
  std::uint64_t random_cut_edges = 0;  // these two of a random split into ranks of the same size
  std::uint64_t random_remote_reads = 0;
  double imbalance = 0;  // by how much the largest work of a rank is above the mean: 0.03 is 3 %
};
PartitionFigures figures(const RankPartition& partition, const Graph& graph, std::uint64_t seed);

}  // namespace shoal
