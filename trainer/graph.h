// The network: an undirected simple graph in compressed rows. Immutable; shared between threads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "store/types.h"

namespace shoal {

class Graph {
 public:
  Graph() = default;
  // Edges in any order and direction; loops and repeated edges are dropped.
  Graph(NodeId nodes, const std::vector<std::pair<NodeId, NodeId>>& edges);
  // Rows that list every edge from both its ends, in any order; for graphs whose list of edges would be too much.
  static Graph from_rows(std::vector<std::uint64_t> ends, std::vector<NodeId> neighbours);

  NodeId nodes() const { return static_cast<NodeId>(ends_.size() - 1); }
  std::uint64_t edges() const { return neighbours_.size() / 2; }
  // Ascending.
  std::span<const NodeId> neighbours(NodeId node) const {
    return {neighbours_.data() + ends_[node], neighbours_.data() + ends_[node + 1]};
  }
  std::uint32_t degree(NodeId node) const { return static_cast<std::uint32_t>(ends_[node + 1] - ends_[node]); }
  std::uint32_t max_degree() const { return max_degree_; }
  std::uint64_t bytes() const;  // of memory

 private:
  void sort_rows();  // and drop what is repeated

  std::vector<std::uint64_t> ends_ = {0};
  std::vector<NodeId> neighbours_;
  std::uint32_t max_degree_ = 0;
};

struct NamedGraph {
  Graph graph;
  std::vector<std::string> names;  // file: what each node was called there; empty otherwise
  std::string note;                // what the user should know: "largest component: 379 of 1461 nodes"; may be empty
};

// ring, star, complete, torus, hypercube, exponential, ring-lattice:K, random-regular:D, erdos-renyi:P,
// watts-strogatz:K:B, barabasi-albert:M, file:PATH. `nodes` is ignored by file: (0) or must then agree with it. The
// same for the same (spec, nodes, seed) everywhere. A usage Error for what cannot be (odd n*d, n not a power of
// two...).
NamedGraph make_graph(const std::string& spec, NodeId nodes, std::uint64_t seed);

// For --help: one line per graph.
std::string graph_choices();

enum class Mixing { kMetropolis, kUniform };

// Row `node` of the mixing matrix: out[0] is the node's own weight, out[1 + k] its k-th neighbour's. Computed from
// degrees, nothing is stored. Rows sum to 1.
void mixing_weights(const Graph& graph, Mixing mixing, NodeId node, std::span<float> out);

struct GraphStatistics {
  std::uint64_t edges = 0;
  std::uint32_t least_degree = 0;
  std::uint32_t largest_degree = 0;
  double mean_degree = 0;
  std::uint32_t diameter_estimate = 0;  // a lower bound, by double sweeps; exact on trees
  double spectral_gap = 0;              // 1 - rho of the mixing matrix
  bool connected = false;
  bool spectral_gap_is_bound = false;  // work ran out (long rings): the gap is at most the figure given

  std::string text() const;  // for people, in one line
};
GraphStatistics statistics(const Graph& graph, Mixing mixing, std::uint64_t seed);

// An order of all nodes in which neighbours stand close together, so that a record stays in RAM between its uses.
std::vector<NodeId> locality_order(const Graph& graph);

}  // namespace shoal
