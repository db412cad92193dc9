// Makes a split over ranks better by moving nodes between them, one at a time. One thread.
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

  // Node after node, to where most of its neighbours are, until little is left to gain. Cheap. Returns by how much
  // fewer edges are cut.
  std::uint64_t sweep();

  // Passes of Fiduccia and Mattheyses (1982), for any number of ranks: every node moves at most once, the best first,
  // also for the worse; what came after the best state is undone. Returns by how much fewer edges are cut.
  std::uint64_t refine(int most_passes);

  // As sweep(), but for fewer records that a rank reads from others, however many of its nodes read the same; of moves
  // alike in that, for fewer cut edges. Returns by how much fewer records (nodes of very high degree left out).
  std::uint64_t sweep_reads();

  // No rank has more than `most_load` afterwards, which leaves room for a node beyond the mean: from those that have
  // more, the nodes that it costs the fewest edges go to ranks with room.
  void balance(std::uint64_t most_load);

 private:
  struct Move {
    NodeId node;
    std::uint16_t from;
    std::uint16_t to;
  };
  struct Candidate {
    Move move;
    std::int32_t gain;  // edges that are no longer cut, records that are no longer read
  };
  static constexpr std::uint32_t kNoRank = ~std::uint32_t{0};

  template <typename Once>
  std::uint64_t until_little_is_gained(int most_times, Once once) const {
    std::uint64_t sum = 0;
    for (int i = 0; i < most_times; ++i) {
      const std::uint64_t gained = once();
      sum += gained;
      if (gained <= graph_.nodes() / 1000) break;
    }
    return sum;
  }
  void count_links(NodeId node);
  void forget_links();
  std::optional<Candidate> best_move(NodeId node, std::uint64_t room);
  void apply(const Move& move);
  std::uint64_t sweep_once();
  std::uint64_t sweep_reads_once();
  std::optional<Candidate> best_move_for_reads(NodeId node);
  bool is_read_otherwise(NodeId neighbour, NodeId node);
  std::uint64_t pass();
  std::uint64_t room() const;
  void queue_all();
  void queue_again(NodeId node);
  std::uint32_t best_queue();
  std::optional<Candidate> next();
  Candidate best_move_with_room(NodeId node);

  const Graph& graph_;
  std::span<const std::uint32_t> weights_;
  std::uint32_t heaviest_ = 0;
  std::uint64_t most_load_;
  std::vector<std::uint16_t>& owner_;
  std::vector<std::uint64_t> loads_;  // by rank
  std::vector<NodeId> counts_;        // by rank
  // Of the node that is looked at.
  std::vector<std::int32_t> links_;    // by rank
  std::vector<std::uint16_t> linked_;  // the ranks of its neighbours
  std::vector<std::int32_t> covered_;  // by rank: neighbours that it owns or reads anyway
  std::vector<std::uint64_t> seen_;    // by rank: the last look_ that found it
  std::uint64_t look_ = 0;
  std::uint32_t overfull_ = kNoRank;  // the one rank that has more than most_load_ for the moment
  NodeQueues queues_;                 // by rank
  std::vector<bool> moved_;
  std::vector<Move> moves_;
};

}  // namespace shoal
