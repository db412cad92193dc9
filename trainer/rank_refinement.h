// Makes the cut of a split smaller by moving nodes between ranks, one at a time. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trainer/graph.h"
#include "trainer/node_queues.h"

namespace shoal {

class RankRefinement {
 public:
  // Works on `owner`; no rank may have more than `most_load`, now or later, and none loses its last node.
  RankRefinement(const Graph& graph, std::span<const std::uint32_t> weights, unsigned ranks, std::uint64_t most_load,
                 std::vector<std::uint16_t>& owner);

  static std::uint64_t bytes_for(NodeId nodes, unsigned ranks);  // of memory

  // Node after node, to where most of its neighbours are, until little is left to gain. Cheap.
  void sweep();

  // Passes of Fiduccia and Mattheyses (1982), for any number of ranks: every node moves at most once, the best first,
  // also for the worse; what came after the best state is undone.
  void refine(int most_passes);

 private:
  struct Move {
    NodeId node;
    std::uint16_t from;
    std::uint16_t to;
  };
  struct Candidate {
    Move move;
    std::int32_t gain;  // edges that are no longer cut
  };
  static constexpr std::uint32_t kNoRank = ~std::uint32_t{0};

  std::optional<Candidate> best_move(NodeId node, std::uint64_t room);
  void apply(const Move& move);
  std::uint64_t sweep_once();
  std::uint64_t pass();
  std::uint64_t room() const;
  void queue_all();
  void queue_again(NodeId node);
  std::uint32_t best_queue();
  std::optional<Candidate> next();

  const Graph& graph_;
  std::span<const std::uint32_t> weights_;
  std::uint32_t heaviest_ = 0;
  std::uint64_t most_load_;
  std::vector<std::uint16_t>& owner_;
  std::vector<std::uint64_t> loads_;  // by rank, as are the next two
  std::vector<NodeId> counts_;
  std::vector<std::int32_t> links_;  // of the node that is looked at
  std::vector<std::uint16_t> linked_;
  std::uint32_t overfull_ = kNoRank;  // the one rank that has more than most_load_ for the moment
  NodeQueues queues_;                 // by rank
  std::vector<bool> moved_;
  std::vector<Move> moves_;
};

}  // namespace shoal
