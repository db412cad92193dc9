#include "trainer/graph.h"

#include <algorithm>

#include "store/error.h"

namespace shoal {

Graph::Graph(NodeId nodes, const std::vector<std::pair<NodeId, NodeId>>& edges) {
  // Counting two places ahead makes the running sums end up as cursors that stop at the right ends: no second array.
  ends_.assign(std::size_t{nodes} + 2, 0);
  for (const auto& [a, b] : edges) {
    SHOAL_CHECK(a < nodes && b < nodes);
    if (a == b) continue;
    ++ends_[std::size_t{a} + 2];
    ++ends_[std::size_t{b} + 2];
  }
  for (std::size_t i = 2; i < ends_.size(); ++i) ends_[i] += ends_[i - 1];
  neighbours_.resize(ends_.back());
  for (const auto& [a, b] : edges) {
    if (a == b) continue;
    neighbours_[ends_[std::size_t{a} + 1]++] = b;
    neighbours_[ends_[std::size_t{b} + 1]++] = a;
  }
  ends_.pop_back();
  sort_rows();
}

Graph Graph::from_rows(std::vector<std::uint64_t> ends, std::vector<NodeId> neighbours) {
  SHOAL_CHECK(!ends.empty() && ends.front() == 0 && ends.back() == neighbours.size());
  Graph graph;
  graph.ends_ = std::move(ends);
  graph.neighbours_ = std::move(neighbours);
  graph.sort_rows();
  return graph;
}

void Graph::sort_rows() {
  std::uint64_t begin = 0;
  std::uint64_t kept = 0;
  for (std::size_t node = 0; node + 1 < ends_.size(); ++node) {
    const auto first = neighbours_.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = neighbours_.begin() + static_cast<std::ptrdiff_t>(ends_[node + 1]);
    std::sort(first, last);
    const auto end = std::unique(first, last);
    begin = ends_[node + 1];
    if (neighbours_.begin() + static_cast<std::ptrdiff_t>(kept) != first) {
      std::move(first, end, neighbours_.begin() + static_cast<std::ptrdiff_t>(kept));
    }
    const auto degree = static_cast<std::uint32_t>(end - first);
    max_degree_ = std::max(max_degree_, degree);
    kept += degree;
    ends_[node + 1] = kept;
  }
  neighbours_.resize(kept);
  // Giving memory back takes a copy: only where it is worth one.
  if (neighbours_.capacity() - kept > kept / 8) neighbours_.shrink_to_fit();
}

std::uint64_t Graph::bytes() const {
  return ends_.capacity() * sizeof(std::uint64_t) + neighbours_.capacity() * sizeof(NodeId);
}

}  // namespace shoal
