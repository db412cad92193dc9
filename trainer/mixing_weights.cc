#include <algorithm>

#include "store/error.h"
#include "trainer/graph.h"

namespace shoal {

// A weight depends on two degrees alone and is rounded once, so both ends of an edge compute the same bits. The node's
// own weight takes up what the rounded ones leave to 1.
void mixing_weights(const Graph& graph, Mixing mixing, NodeId node, std::span<float> out) {
  const auto neighbours = graph.neighbours(node);
  SHOAL_CHECK(out.size() == neighbours.size() + 1);
  const std::uint32_t degree = graph.degree(node);
  double given = 0;
  for (std::size_t k = 0; k < neighbours.size(); ++k) {
    const std::uint32_t larger = mixing == Mixing::kMetropolis ? std::max(degree, graph.degree(neighbours[k])) : degree;
    out[k + 1] = static_cast<float>(1.0 / (1.0 + larger));
    given += static_cast<double>(out[k + 1]);
  }
  out[0] = static_cast<float>(1.0 - given);
}

}  // namespace shoal
