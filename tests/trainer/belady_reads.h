// What an order of nodes costs: public records read in one round that begins with an empty cache, if each node reads
// its own record and its neighbours', and the cache gives up the record whose next use is farthest away (Belady 1966).
#pragma once

#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "trainer/graph.h"

namespace shoal {

inline std::uint64_t belady_reads(const Graph& graph, const std::vector<NodeId>& order, std::uint64_t cache_records) {
  std::vector<NodeId> uses;
  uses.reserve(graph.nodes() + 2 * graph.edges());
  for (const NodeId node : order) {
    uses.push_back(node);
    uses.insert(uses.end(), graph.neighbours(node).begin(), graph.neighbours(node).end());
  }
  constexpr std::uint32_t kNever = ~std::uint32_t{0};
  std::vector<std::uint32_t> next_use(uses.size());
  std::vector<std::uint32_t> next_of(graph.nodes(), kNever);
  for (std::size_t t = uses.size(); t-- > 0;) {
    next_use[t] = next_of[uses[t]];
    next_of[uses[t]] = static_cast<std::uint32_t>(t);
  }
  // A record's entries in the heap are stale but for the one with its present next use. `next_of` is that, while
  // cached.
  std::vector<bool> cached(graph.nodes());
  std::priority_queue<std::pair<std::uint32_t, NodeId>> farthest;
  std::uint64_t reads = 0;
  std::uint64_t held = 0;
  for (std::size_t t = 0; t < uses.size(); ++t) {
    const NodeId record = uses[t];
    if (!cached[record]) {
      ++reads;
      while (held >= cache_records) {
        const auto [use, victim] = farthest.top();
        farthest.pop();
        if (!cached[victim] || next_of[victim] != use) continue;
        cached[victim] = false;
        --held;
      }
      cached[record] = true;
      ++held;
    }
    next_of[record] = next_use[t];
    if (next_use[t] == kNever) {
      cached[record] = false;
      --held;
    } else {
      farthest.emplace(next_use[t], record);
    }
  }
  return reads;
}

}  // namespace shoal
