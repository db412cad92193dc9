// Nodes in queues by a priority that changes: the highest first, of equals the one that was put there last. A node is
// in one queue at most.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "store/types.h"

namespace shoal {

class NodeQueues {
 public:
  struct Entry {
    std::int32_t priority;
    std::uint32_t stamp;
    NodeId node;
    bool operator<(const Entry& other) const {
      return priority != other.priority ? priority < other.priority : stamp < other.stamp;
    }
  };

  NodeQueues(NodeId nodes, unsigned queues) : places_(nodes), queues_(queues) {}

  // A vector that grows is there twice, once with room to spare.
  static std::uint64_t bytes_for(NodeId nodes, unsigned queues) {
    return nodes * sizeof(Place) + 3 * most_entries(nodes) * sizeof(Entry) + queues * sizeof(std::vector<Entry>);
  }

  bool holds(NodeId node) const { return places_[node].stamp != 0; }
  std::int32_t priority(NodeId node) const { return places_[node].priority; }  // of a node that is held

  // Replaces what was put before.
  void put(unsigned queue, NodeId node, std::int32_t priority) {
    if (holds(node) && places_[node].priority == priority) return;
    if (entries_ == most_entries(static_cast<NodeId>(places_.size()))) drop_replaced();
    places_[node] = {priority, ++stamp_};
    queues_[queue].push_back({priority, stamp_, node});
    std::push_heap(queues_[queue].begin(), queues_[queue].end());
    ++entries_;
  }

  void remove(NodeId node) { places_[node].stamp = 0; }

  // The first entry, or null.
  const Entry* top(unsigned queue) {
    std::vector<Entry>& heap = queues_[queue];
    while (!heap.empty() && !valid(heap.front())) {
      std::pop_heap(heap.begin(), heap.end());
      heap.pop_back();
      --entries_;
    }
    return heap.empty() ? nullptr : &heap.front();
  }

  void clear() {
    for (std::vector<Entry>& heap : queues_) {
      for (const Entry& entry : heap) remove(entry.node);
      heap.clear();
    }
    entries_ = 0;
    stamp_ = 0;
  }

 private:
  struct Place {
    std::int32_t priority = 0;
    std::uint32_t stamp = 0;  // of the entry that counts; 0: none
  };

  static std::uint64_t most_entries(NodeId nodes) { return 2 * std::uint64_t{nodes}; }
  bool valid(const Entry& entry) const { return places_[entry.node].stamp == entry.stamp; }

  // At most one entry per node stays, so that this happens once in as many puts as there are nodes.
  void drop_replaced() {
    entries_ = 0;
    for (std::vector<Entry>& heap : queues_) {
      std::erase_if(heap, [this](const Entry& entry) { return !valid(entry); });
      std::make_heap(heap.begin(), heap.end());
      entries_ += heap.size();
    }
  }

  std::vector<Place> places_;  // by node
  std::vector<std::vector<Entry>> queues_;
  std::uint64_t entries_ = 0;
  std::uint32_t stamp_ = 0;
};

}  // namespace shoal
