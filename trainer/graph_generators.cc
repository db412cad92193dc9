#include "trainer/graph_generators.h"

#include <numeric>
#include <utility>
#include <vector>

namespace shoal {
namespace {

using Edges = std::vector<std::pair<NodeId, NodeId>>;

// i + distance around a ring of n; a sum of two NodeIds may not fit into one.
NodeId ahead(NodeId i, std::uint64_t distance, NodeId n) { return static_cast<NodeId>((i + distance) % n); }

}  // namespace

Graph ring_graph(NodeId nodes) {
  Edges edges;
  edges.reserve(nodes);
  for (NodeId i = 0; i < nodes; ++i) edges.emplace_back(i, ahead(i, 1, nodes));
  return Graph(nodes, edges);
}

Graph star_graph(NodeId nodes) {
  Edges edges;
  edges.reserve(nodes);
  for (NodeId i = 1; i < nodes; ++i) edges.emplace_back(0, i);
  return Graph(nodes, edges);
}

Graph complete_graph(NodeId nodes) {
  std::vector<std::uint64_t> ends(std::size_t{nodes} + 1);
  for (std::size_t i = 0; i <= nodes; ++i) ends[i] = i * (nodes - 1);
  std::vector<NodeId> neighbours;
  neighbours.reserve(ends.back());
  for (NodeId i = 0; i < nodes; ++i) {
    for (NodeId j = 0; j < nodes; ++j) {
      if (i != j) neighbours.push_back(j);
    }
  }
  return Graph::from_rows(std::move(ends), std::move(neighbours));
}

NodeId torus_side(NodeId nodes) {
  NodeId side = 1;
  for (NodeId i = 1; std::uint64_t{i} * i <= nodes; ++i) {
    if (nodes % i == 0) side = i;
  }
  return side;
}

Graph torus_graph(NodeId nodes) {
  const NodeId rows = torus_side(nodes);
  const NodeId columns = nodes / rows;
  Edges edges;
  edges.reserve(std::size_t{2} * nodes);
  for (NodeId row = 0; row < rows; ++row) {
    for (NodeId column = 0; column < columns; ++column) {
      const NodeId i = row * columns + column;
      edges.emplace_back(i, row * columns + ahead(column, 1, columns));
      edges.emplace_back(i, ahead(row, 1, rows) * columns + column);
    }
  }
  return Graph(nodes, edges);
}

Graph hypercube_graph(NodeId nodes) {
  Edges edges;
  for (NodeId bit = 1; bit < nodes && bit != 0; bit <<= 1) {
    edges.reserve(edges.size() + nodes / 2);
    for (NodeId i = 0; i < nodes; ++i) {
      if ((i & bit) == 0) edges.emplace_back(i, i | bit);
    }
  }
  return Graph(nodes, edges);
}

Graph exponential_graph(NodeId nodes) {
  Edges edges;
  for (std::uint64_t distance = 1; distance < nodes; distance <<= 1) {
    edges.reserve(edges.size() + nodes);
    for (NodeId i = 0; i < nodes; ++i) edges.emplace_back(i, ahead(i, distance, nodes));
  }
  return Graph(nodes, edges);
}

Graph ring_lattice_graph(NodeId nodes, std::uint32_t degree) {
  Edges edges;
  edges.reserve(std::size_t{nodes} * (degree / 2));
  for (std::uint32_t distance = 1; distance <= degree / 2; ++distance) {
    for (NodeId i = 0; i < nodes; ++i) edges.emplace_back(i, ahead(i, distance, nodes));
  }
  return Graph(nodes, edges);
}

}  // namespace shoal
