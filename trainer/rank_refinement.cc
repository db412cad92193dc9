#include "trainer/rank_refinement.h"

#include <algorithm>

#include "store/error.h"

namespace shoal {
namespace {

// One move changes little for a node of more neighbours than that, and looking at them all after each takes long.
constexpr std::uint32_t kMostDegree = 500;

constexpr int kMostSweeps = 20;  // 5 to 10 are usual

}  // namespace

RankRefinement::RankRefinement(const Graph& graph, std::span<const std::uint32_t> weights, unsigned ranks,
                               std::uint64_t most_load, std::vector<std::uint16_t>& owner)
    : graph_(graph),
      weights_(weights),
      most_load_(most_load),
      owner_(owner),
      loads_(ranks),
      counts_(ranks),
      links_(ranks),
      covered_(ranks),
      seen_(ranks),
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
  constexpr std::uint64_t kByRank = 2 * sizeof(std::uint64_t) + sizeof(NodeId) + 2 * sizeof(std::int32_t) + 4;
  return NodeQueues::bytes_for(nodes, ranks) + nodes * sizeof(Move) + nodes / 8 + ranks * kByRank;
}

void RankRefinement::count_links(NodeId node) {
  for (const NodeId neighbour : graph_.neighbours(node)) {
    const std::uint16_t rank = owner_[neighbour];
    if (links_[rank]++ == 0) linked_.push_back(rank);
  }
}

void RankRefinement::forget_links() {
  for (const std::uint16_t rank : linked_) links_[rank] = covered_[rank] = 0;
  linked_.clear();
}

// The rank with most of the node's neighbours besides its own, and with no more than `room` after the move.
std::optional<RankRefinement::Candidate> RankRefinement::best_move(NodeId node, std::uint64_t room) {
  const std::uint16_t from = owner_[node];
  if (counts_[from] == 1) return std::nullopt;
  count_links(node);
  std::optional<Candidate> best;
  for (const std::uint16_t to : linked_) {
    if (to == from || loads_[to] + weights_[node] > room) continue;
    const std::int32_t gain = links_[to] - links_[from];
    if (!best || gain > best->gain || (gain == best->gain && loads_[to] < loads_[best->move.to])) {
      best = Candidate{{node, from, to}, gain};
    }
  }
  forget_links();
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

std::uint64_t RankRefinement::sweep() {
  return until_little_is_gained(kMostSweeps, [this] { return sweep_once(); });
}

std::uint64_t RankRefinement::refine(int most_passes) {
  return until_little_is_gained(most_passes, [this] { return pass(); });
}

std::uint64_t RankRefinement::sweep_reads() {
  return until_little_is_gained(kMostSweeps, [this] { return sweep_reads_once(); });
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

std::uint64_t RankRefinement::sweep_reads_once() {
  std::int64_t gained = 0;
  for (NodeId node = 0; node < graph_.nodes(); ++node) {
    if (counts_[owner_[node]] == 1) continue;
    count_links(node);
    const auto best = best_move_for_reads(node);
    forget_links();
    if (!best) continue;
    apply(best->move);
    gained += best->gain;
  }
  return static_cast<std::uint64_t>(gained);
}

void RankRefinement::balance(std::uint64_t most_load) {
  most_load_ = most_load;
  queues_.clear();
  for (NodeId node = 0; node < graph_.nodes(); ++node) {
    if (loads_[owner_[node]] > most_load_) queues_.put(owner_[node], node, best_move_with_room(node).gain);
  }
  for (std::uint16_t rank = 0; rank < loads_.size(); ++rank) {
    while (loads_[rank] > most_load_) {
      const NodeQueues::Entry top = *queues_.top(rank);
      const Candidate best = best_move_with_room(top.node);
      if (best.gain < top.priority) {  // the rank it was queued for is full by now
        queues_.put(rank, top.node, best.gain);
        continue;
      }
      queues_.remove(top.node);
      apply(best.move);
      for (const NodeId neighbour : graph_.neighbours(top.node)) {
        if (owner_[neighbour] != rank || graph_.degree(neighbour) > kMostDegree) continue;
        queues_.put(rank, neighbour, best_move_with_room(neighbour).gain);
      }
    }
  }
}

// As best_move(); where no rank of a neighbour has room, to the one that has the least.
RankRefinement::Candidate RankRefinement::best_move_with_room(NodeId node) {
  if (const auto best = best_move(node, most_load_)) return *best;
  const std::uint16_t from = owner_[node];
  const auto neighbours = graph_.neighbours(node);
  const auto cut = std::ranges::count_if(neighbours, [&](NodeId each) { return owner_[each] == from; });
  const auto to = static_cast<std::uint16_t>(std::ranges::min_element(loads_) - loads_.begin());
  return {{node, from, to}, -static_cast<std::int32_t>(cut)};
}

// Whether the node's rank reads the neighbour for others than the node, too; counts in covered_ the ranks that do.
bool RankRefinement::is_read_otherwise(NodeId neighbour, NodeId node) {
  const std::uint16_t own = owner_[node];
  const std::uint16_t home = owner_[neighbour];
  std::size_t unseen = linked_.size() + (links_[own] == 0 ? 1 : 0);
  const auto see = [&](std::uint16_t rank) {
    if (seen_[rank] == look_ || (links_[rank] == 0 && rank != own)) return;
    seen_[rank] = look_;
    ++covered_[rank];
    --unseen;
  };
  ++look_;
  see(home);
  for (const NodeId reader : graph_.neighbours(neighbour)) {
    if (unseen == 0) break;
    if (reader != node) see(owner_[reader]);
  }
  return seen_[own] == look_;
}

std::optional<RankRefinement::Candidate> RankRefinement::best_move_for_reads(NodeId node) {
  const std::uint16_t from = owner_[node];
  if (linked_.empty() || (linked_.size() == 1 && linked_.front() == from)) return std::nullopt;
  std::int32_t looked_at = 0;
  std::int32_t saved = 0;  // what the old rank need not read any more
  for (const NodeId neighbour : graph_.neighbours(node)) {
    if (graph_.degree(neighbour) > kMostDegree) continue;
    ++looked_at;
    saved += is_read_otherwise(neighbour, node) ? 0 : 1;
  }
  covered_[from] = 0;
  std::optional<Candidate> best;
  std::int32_t fewer_cut = 0;
  for (const std::uint16_t to : linked_) {
    if (to == from || loads_[to] + weights_[node] > most_load_) continue;
    // The node itself is no longer read by the new rank, but by the old one if it has neighbours there.
    const std::int32_t gain = saved - (looked_at - covered_[to]) + 1 - (links_[from] > 0 ? 1 : 0);
    const std::int32_t cut_gain = links_[to] - links_[from];
    const std::int32_t least = best ? best->gain : 0;
    if (gain < least || (gain == least && cut_gain <= fewer_cut)) continue;
    best = Candidate{{node, from, to}, gain};
    fewer_cut = cut_gain;
  }
  return best;
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
