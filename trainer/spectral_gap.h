// How fast mixing forgets where a value came from: 1 - rho, rho the second largest of the mixing matrix's eigenvalues
// by magnitude. With Metropolis weights (and uniform ones on a regular graph) rho = ||W - 11'/n||.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/graph.h"

namespace shoal {

struct SpectralGap {
  double gap = 0;
  bool is_bound = false;  // work ran out: the gap is at most this
};

// Visits of an edge or node. On a graph of 1,000,000 nodes and degree 8 a Lanczos step takes 12 million, at 5 to 10 ns.
inline constexpr double kMostGapWork = 4e8;

// Of a connected graph. Any test vector bounds the gap from above; `levels`, each node's distance from some far-off
// node, gives the one that is hardest to find otherwise, that of a long graph.
SpectralGap spectral_gap(const Graph& graph, Mixing mixing, std::uint64_t seed,
                         const std::vector<std::uint32_t>& levels, double most_work = kMostGapWork);

}  // namespace shoal
