// Graphs of the same kind with other numbers: of nodes, for samples and smaller runs, and of neighbours.
#pragma once

#include <string>
#include <vector>

#include "store/types.h"

namespace shoal {

// The most nodes, up to so many, that the kind can have; 0: none, or the graph is a file and has those that it has.
NodeId nodes_at_most(const std::string& graph, NodeId nodes);

// A graph of `to` nodes that looks to each of its nodes as `graph` does with `from`.
std::string resized_graph(const std::string& graph, NodeId from, NodeId to);

// The fewest nodes for which that holds; 0: never. A node's neighbours must be a small part of the graph, or, where
// their number grows with it (star, hypercube, exponential), lie the same way in a small one.
NodeId least_alike(const std::string& graph, std::uint32_t max_degree);

// The same kind with fewer neighbours for each node, the most first, and at last a ring; the same number of nodes must
// do for all.
std::vector<std::string> sparser_graphs(const std::string& graph);

}  // namespace shoal
