// Which nodes hang together: union-find over a growing list of edges.
#pragma once

#include <numeric>
#include <utility>
#include <vector>

#include "store/types.h"

namespace shoal {

class DisjointSets {
 public:
  explicit DisjointSets(NodeId nodes) : parents_(nodes), sizes_(nodes, 1), count_(nodes) {
    std::iota(parents_.begin(), parents_.end(), NodeId{0});
  }

  NodeId count() const { return count_; }
  NodeId size(NodeId node) { return sizes_[find(node)]; }

  NodeId find(NodeId node) {
    while (parents_[node] != node) {
      parents_[node] = parents_[parents_[node]];
      node = parents_[node];
    }
    return node;
  }

  // False if they were joined already.
  bool join(NodeId a, NodeId b) {
    a = find(a);
    b = find(b);
    if (a == b) return false;
    if (sizes_[a] < sizes_[b]) std::swap(a, b);
    parents_[b] = a;
    sizes_[a] += sizes_[b];
    --count_;
    return true;
  }

  // The root of the largest set; of equals, the one with the smallest node.
  NodeId largest() {
    NodeId best = 0;
    for (NodeId node = 0; node < parents_.size(); ++node) {
      const NodeId root = find(node);
      if (sizes_[root] > sizes_[find(best)]) best = root;
    }
    return parents_.empty() ? kNoNode : find(best);
  }

 private:
  std::vector<NodeId> parents_;
  std::vector<NodeId> sizes_;
  NodeId count_;
};

}  // namespace shoal
