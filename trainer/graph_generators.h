// The shapes that make_graph knows. Parameters were checked by it: these only build.
//
// Random graphs draw from streams of Purpose::kGraph alone, and come out connected.
#pragma once

#include <cstdint>

#include "trainer/graph.h"

namespace shoal {

Graph ring_graph(NodeId nodes);
Graph star_graph(NodeId nodes);
Graph complete_graph(NodeId nodes);
// Sides as equal as the factors of `nodes` allow: a prime gives a ring.
Graph torus_graph(NodeId nodes);
NodeId torus_side(NodeId nodes);  // the shorter one
Graph hypercube_graph(NodeId nodes);
// i ~ i +- 2^k.
Graph exponential_graph(NodeId nodes);
// i ~ i +- 1 ... i +- degree / 2.
Graph ring_lattice_graph(NodeId nodes, std::uint32_t degree);

// Simple and exactly regular; 2 <= degree < nodes, or one edge.
Graph random_regular_graph(NodeId nodes, std::uint32_t degree, std::uint64_t seed);

// Edges were added to join the parts that the draw had left apart: so many.
struct JoinedGraph {
  Graph graph;
  NodeId joined = 0;
};
JoinedGraph erdos_renyi_graph(NodeId nodes, double probability, std::uint64_t seed);
JoinedGraph watts_strogatz_graph(NodeId nodes, std::uint32_t degree, double rewired, std::uint64_t seed);

// Each node brings `links` edges to earlier nodes, chosen in proportion to their degrees; begins as a star.
Graph barabasi_albert_graph(NodeId nodes, std::uint32_t links, std::uint64_t seed);

}  // namespace shoal
