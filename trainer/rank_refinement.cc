#include "trainer/rank_refinement.h"

#include <algorithm>

#include "store/error.h"

namespace shoal {

RankRefinement::RankRefinement(const Graph& graph, std::span<const std::uint32_t> weights, unsigned ranks,
                               std::uint64_t most_load, std::vector<std::uint16_t>& owner)
    : graph_(graph),
      weights_(weights),
      most_load_(most_load),
      owner_(owner),
      loads_(ranks),
      counts_(ranks),
      links_(ranks),
      queues_(graph.nodes(), ranks),
      moved_(graph.nodes()) {
  for (NodeId i = 0; i < graph.nodes(); ++i) {
    loads_[owner[i]] += weights[i];
    ++counts_[owner[i]];
    heaviest_ = std::max(heaviest_, weights[i]);
  }
  SHOAL_CHECK(std::ranges::max(loads_) <= most_load);
  moves_.reserve(graph.nodes());
}

std::uint64_t RankRefinement::bytes_for(NodeId nodes, unsigned ranks) {
  constexpr std::uint64_t kByRank = sizeof(std::uint64_t) + sizeof(NodeId) + sizeof(std::int32_t) + 4;
  return NodeQueues::bytes_for(nodes, ranks) + nodes * sizeof(Move) + nodes / 8 + ranks * kByRank;
}

// The rank with most of the node's neighbours besides its own, and with less than `room` after the move.
std::optional<RankRefinement::Candidate> RankRefinement::best_move(NodeId node, std::uint64_t room) {
  const std::uint16_t from = owner_[node];
  if (counts_[from] == 1) return std::nullopt;
  linked_.clear();
  for (const NodeId neighbour : graph_.neighbours(node)) {
    const std::uint16_t rank = owner_[neighbour];
    if (links_[rank]++ == 0) linked_.push_back(rank);
  }
  std::optional<Candidate> best;
  for (const std::uint16_t to : linked_) {
    if (to == from || loads_[to] + weights_[node] > room) continue;
    const std::int32_t gain = links_[to] - links_[from];
    if (!best || gain > best->gain || (gain == best->gain && loads_[to] < loads_[best->move.to])) {
      best = Candidate{{node, from, to}, gain};
    }
  }
  for (const std::uint16_t rank : linked_) links_[rank] = 0;
  return best;
}

void RankRefinement::apply(const Move& move) {
  owner_[move.node] = move.to;
  loads_[move.from] -= weights_[move.node];
  loads_[move.to] += weights_[move.node];
  --counts_[move.from];
  ++counts_[move.to];
  if (overfull_ == move.from && loads_[move.from] <= most_load_) overfull_ = kNoRank;
  if (loads_[move.to] > most_load_) overfull_ = move.to;
}

void RankRefinement::sweep() {
  constexpr int kMostSweeps = 20;  // 5 to 10 are usual
  for (int i = 0; i < kMostSweeps; ++i) {
    if (sweep_once() <= graph_.nodes() / 1000) return;
  }
}

std::uint64_t RankRefinement::sweep_once() {
  std::int64_t gained = 0;
  for (NodeId node = 0; node < graph_.nodes(); ++node) {
    const auto best = best_move(node, most_load_);
    if (!best || best->gain < 0) continue;
    // For nothing only towards balance, which makes room for others.
    if (best->gain == 0 && loads_[best->move.to] + weights_[node] >= loads_[best->move.from]) continue;
    apply(best->move);
    gained += best->gain;
  }
  return static_cast<std::uint64_t>(gained);
}

void RankRefinement::refine(int most_passes) {
  for (int i = 0; i < most_passes; ++i) {
    if (pass() <= graph_.nodes() / 1000) return;
  }
}

std::uint64_t RankRefinement::pass() {
  // So many moves without a new best, and the pass is over.
  const std::size_t patience = std::clamp<std::size_t>(graph_.nodes() / 50, 100, 20'000);
  std::int64_t gained = 0;
  std::int64_t best = 0;
  std::size_t best_moves = 0;
  moves_.clear();
  queue_all();
  while (moves_.size() < best_moves + patience) {
    const auto candidate = next();
    if (!candidate) break;
    const Move& move = candidate->move;
    apply(move);
    moves_.push_back(move);
    moved_[move.node] = true;
    for (const NodeId neighbour : graph_.neighbours(move.node)) queue_again(neighbour);
    gained += candidate->gain;
    if (gained > best && overfull_ == kNoRank) {
      best = gained;
      best_moves = moves_.size();
    }
  }
  for (; moves_.size() > best_moves; moves_.pop_back()) {
    const Move& move = moves_.back();
    apply({move.node, move.to, move.from});
  }
  return static_cast<std::uint64_t>(best);
}

// A full rank may take a node, but is the next to give one: a tight bound would otherwise allow no move at all.
std::uint64_t RankRefinement::room() const { return overfull_ == kNoRank ? most_load_ + heaviest_ : most_load_; }

void RankRefinement::queue_all() {
  queues_.clear();
  moved_.assign(graph_.nodes(), false);
  for (NodeId node = 0; node < graph_.nodes(); ++node) {
    if (const auto best = best_move(node, room())) queues_.put(best->move.from, node, best->gain);
  }
}

void RankRefinement::queue_again(NodeId node) {
  // One move changes little for so many neighbours, and looking at them after each takes long.
  constexpr std::uint32_t kMostDegree = 500;
  if (moved_[node] || graph_.degree(node) > kMostDegree) return;
  if (const auto best = best_move(node, room())) {
    queues_.put(best->move.from, node, best->gain);
  } else {
    queues_.remove(node);
  }
}

std::uint32_t RankRefinement::best_queue() {
  if (overfull_ != kNoRank) return queues_.top(overfull_) != nullptr ? overfull_ : kNoRank;
  const NodeQueues::Entry* best = nullptr;
  std::uint32_t best_rank = kNoRank;
  for (std::uint32_t rank = 0; rank < loads_.size(); ++rank) {
    const NodeQueues::Entry* top = queues_.top(rank);
    if (top == nullptr || (best != nullptr && *top < *best)) continue;
    best = top;
    best_rank = rank;
  }
  return best_rank;
}

std::optional<RankRefinement::Candidate> RankRefinement::next() {
  for (;;) {
    const std::uint32_t rank = best_queue();
    if (rank == kNoRank) return std::nullopt;
    const NodeQueues::Entry top = *queues_.top(rank);
    queues_.remove(top.node);
    const auto best = best_move(top.node, room());
    if (best && best->gain >= top.priority) return best;
    // The rank it was queued for is full by now.
    if (best) queues_.put(rank, top.node, best->gain);
  }
}

}  // namespace shoal
