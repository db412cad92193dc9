#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "store/error.h"
#include "trainer/graph_generators.h"
#include "trainer/random.h"

namespace shoal {
namespace {

// Rows of one length, changed in place by switching two edges for two others: {a, b}, {c, d} become {a, c}, {b, d},
// which keeps every degree.
class RegularRows {
 public:
  RegularRows(NodeId nodes, std::uint32_t degree) : nodes_(nodes), degree_(degree) {}

  // The pairing model: `degree` stubs of each node, shuffled, are paired off. On average (d-1)/2 loops and (d-1)^2/4
  // double edges come out, whatever the size; rejecting the whole draw for them would end for small degrees only.
  void pair_stubs(RandomStream& random) {
    std::vector<NodeId> stubs(std::size_t{nodes_} * degree_);
    for (std::size_t i = 0; i < stubs.size(); ++i) stubs[i] = static_cast<NodeId>(i / degree_);
    for (std::size_t i = stubs.size() - 1; i > 0; --i) {
      std::swap(stubs[i], stubs[random.below(static_cast<std::uint32_t>(i + 1))]);
    }
    neighbours_.resize(stubs.size());
    std::vector<std::uint32_t> filled(nodes_);
    for (std::size_t i = 0; i < stubs.size(); i += 2) {
      const NodeId a = stubs[i];
      const NodeId b = stubs[i + 1];
      neighbours_[std::size_t{a} * degree_ + filled[a]++] = b;
      neighbours_[std::size_t{b} * degree_ + filled[b]++] = a;
    }
  }

  // Switches every loop and double edge with a random edge. False if one finds no partner: tiny graphs only.
  bool make_simple(RandomStream& random) {
    for (const auto& [a, b] : faults()) {
      int tries = 0;
      while (is_fault(a, b)) {
        if (++tries > 10'000) return false;
        const NodeId c = random.below(nodes_);
        const NodeId d = row(c)[random.below(degree_)];
        if (c == a || d == b || (a == b && c == d) || has(a, c) || has(b, d)) continue;
        switch_ends(a, b, c, d);
      }
    }
    return true;
  }

  // Each part has an edge besides its spanning tree, since it has as many edges as nodes. Switching two of those joins
  // two parts, breaks neither, and leaves again one edge that no tree needs, for the next part.
  void connect() {
    std::vector<NodeId> parents(nodes_, kNoNode);
    std::vector<NodeId> queue;
    queue.reserve(nodes_);
    std::optional<std::pair<NodeId, NodeId>> spare;
    for (NodeId root = 0; root < nodes_; ++root) {
      if (parents[root] != kNoNode) continue;
      const auto found = walk_part(root, parents, queue);
      if (spare) {
        const auto [a, b] = *spare;
        switch_ends(a, b, found.first, found.second);
        spare = {b, found.second};
      } else {
        spare = found;
      }
    }
  }

  Graph take() && {
    std::vector<std::uint64_t> ends(std::size_t{nodes_} + 1);
    for (std::size_t i = 0; i < ends.size(); ++i) ends[i] = i * degree_;
    return Graph::from_rows(std::move(ends), std::move(neighbours_));
  }

 private:
  std::span<NodeId> row(NodeId node) { return {neighbours_.data() + std::size_t{node} * degree_, degree_}; }
  bool has(NodeId a, NodeId b) { return std::ranges::find(row(a), b) != row(a).end(); }
  bool is_fault(NodeId a, NodeId b) { return a == b ? has(a, a) : std::ranges::count(row(a), b) > 1; }
  void replace(NodeId node, NodeId from, NodeId to) { *std::ranges::find(row(node), from) = to; }

  void switch_ends(NodeId a, NodeId b, NodeId c, NodeId d) {
    replace(a, b, c);
    replace(b, a, d);
    replace(c, d, a);
    replace(d, c, b);
  }

  std::vector<std::pair<NodeId, NodeId>> faults() {
    std::vector<std::pair<NodeId, NodeId>> found;
    std::vector<NodeId> seen_by(nodes_, kNoNode);
    for (NodeId a = 0; a < nodes_; ++a) {
      for (const NodeId b : row(a)) {
        if (b == a || (a < b && seen_by[b] == a)) found.emplace_back(a, b);
        seen_by[b] = a;
      }
    }
    return found;
  }

  // Breadth first; returns an edge that is not in the tree.
  std::pair<NodeId, NodeId> walk_part(NodeId root, std::vector<NodeId>& parents, std::vector<NodeId>& queue) {
    std::pair<NodeId, NodeId> spare = {kNoNode, kNoNode};
    queue.assign(1, root);
    parents[root] = root;
    for (std::size_t i = 0; i < queue.size(); ++i) {
      const NodeId a = queue[i];
      for (const NodeId b : row(a)) {
        if (parents[b] == kNoNode) {
          parents[b] = a;
          queue.push_back(b);
        } else if (parents[a] != b && parents[b] != a) {
          spare = {a, b};
        }
      }
    }
    SHOAL_CHECK(spare.first != kNoNode);
    return spare;
  }

  NodeId nodes_;
  std::uint32_t degree_;
  std::vector<NodeId> neighbours_;
};

// Who is not linked in `graph`.
Graph complement(const Graph& graph, std::uint32_t degree) {
  std::vector<std::uint64_t> ends = {0};
  std::vector<NodeId> neighbours;
  neighbours.reserve(std::size_t{graph.nodes()} * degree);
  for (NodeId a = 0; a < graph.nodes(); ++a) {
    auto linked = graph.neighbours(a).begin();
    for (NodeId b = 0; b < graph.nodes(); ++b) {
      if (linked != graph.neighbours(a).end() && *linked == b) {
        ++linked;
      } else if (a != b) {
        neighbours.push_back(b);
      }
    }
    ends.push_back(neighbours.size());
  }
  return Graph::from_rows(std::move(ends), std::move(neighbours));
}

Graph draw(NodeId nodes, std::uint32_t degree, std::uint64_t seed) {
  for (std::uint64_t attempt = 0; attempt < 1000; ++attempt) {
    RandomStream random(seed, Purpose::kGraph, 0, attempt);
    RegularRows rows(nodes, degree);
    rows.pair_stubs(random);
    if (!rows.make_simple(random)) continue;
    if (degree > 1) rows.connect();
    return std::move(rows).take();
  }
  SHOAL_CHECK(!"a regular graph was found");
  return {};
}

}  // namespace

Graph random_regular_graph(NodeId nodes, std::uint32_t degree, std::uint64_t seed) {
  const std::uint32_t missing = nodes - 1 - degree;
  if (missing == 0) return complete_graph(nodes);
  // Dense rows leave switches no room; what is missing from them is sparse. Above half the nodes, any graph is
  // connected.
  if (degree >= nodes / 2 + 1) return complement(draw(nodes, missing, seed), degree);
  return draw(nodes, degree, seed);
}

}  // namespace shoal
