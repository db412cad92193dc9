// Greedy against a simulated cache: the next node is the one with the best balance of records that are in the cache
// against records that are not. docs/results.md compares it with other orders.
//
// Everything is sized so that 1,000,000 nodes of degree 8 take seconds: a change of a node's balance costs one random
// access, buckets are short and stay in the processor's cache.

#include <algorithm>
#include <array>

#include "trainer/graph.h"

namespace shoal {
namespace {

// Reverse Cuthill-McKee: breadth first from an outlying node, low degrees first, backwards. Decides where to go on
// when nothing is in the cache, and is the order for graphs too dense to do better in reasonable time.
std::vector<NodeId> reverse_cuthill_mckee(const Graph& graph) {
  std::vector<NodeId> order;
  order.reserve(graph.nodes());
  std::vector<NodeId> probe;
  enum State : std::uint8_t { kNew, kProbed, kOrdered };
  std::vector<State> states(graph.nodes(), kNew);
  const auto walk = [&](std::vector<NodeId>& queue, NodeId root, State state) {
    std::size_t next = queue.size();
    queue.push_back(root);
    states[root] = state;
    for (; next < queue.size(); ++next) {
      const auto found = static_cast<std::ptrdiff_t>(queue.size());
      for (const NodeId node : graph.neighbours(queue[next])) {
        if (states[node] >= state) continue;
        states[node] = state;
        queue.push_back(node);
      }
      std::stable_sort(queue.begin() + found, queue.end(),
                       [&](NodeId a, NodeId b) { return graph.degree(a) < graph.degree(b); });
    }
  };
  for (NodeId node = 0; node < graph.nodes(); ++node) {
    if (states[node] != kNew) continue;
    probe.clear();
    walk(probe, node, kProbed);
    walk(order, probe.back(), kOrdered);
  }
  std::ranges::reverse(order);
  return order;
}

class GreedyOrder {
 public:
  explicit GreedyOrder(const Graph& graph)
      : graph_(graph),
        balances_(graph.nodes()),
        uses_left_(graph.nodes()),
        places_(graph.nodes(), kNoPlace),
        fallback_(reverse_cuthill_mckee(graph)),
        most_degree_(degree_limit()) {
    // Somewhat more than the 1/16 that is aimed at, because a real cache knows the future and this one does not: 1/10
    // to 1/16 are all alike there, 1/12 is best by a little.
    const std::size_t cache = std::max<std::size_t>(2, graph.nodes() / 12);
    cache_.assign(cache, kNoNode);
    used_again_.assign(cache, false);
    for (std::size_t i = cache; i-- > 0;) free_.push_back(static_cast<std::uint32_t>(i));
    for (NodeId i = 0; i < graph.nodes(); ++i) {
      uses_left_[i] = graph.degree(i) + 1;
      balances_[i] = static_cast<std::int32_t>(uses_left_[i]);
    }
  }

  std::vector<NodeId> run() && {
    std::vector<NodeId> order;
    order.reserve(graph_.nodes());
    while (order.size() < graph_.nodes()) {
      const NodeId node = choose();
      order.push_back(node);
      balances_[node] = kDone;
      use(node);
      for (const NodeId neighbour : graph_.neighbours(node)) use(neighbour);
    }
    return order;
  }

 private:
  static constexpr std::int32_t kDone = 1 << 30;
  static constexpr std::uint32_t kNoPlace = ~std::uint32_t{0};
  static constexpr std::int32_t kMostBalance = 1024;
  static constexpr std::size_t kBuckets = 2 * kMostBalance + 1;
  // Older entries than this are forgotten: what was touched last is chosen first anyway. 64 to 16,384 give the same.
  static constexpr std::size_t kBucketNodes = 1024;

  // A record that comes or goes changes the balance of all its neighbours, about as often as it has neighbours. Where
  // that would be more than a few seconds' work, records of the highest degrees are not followed.
  std::uint32_t degree_limit() const {
    constexpr double kMostWork = 3e8;
    std::vector<double> work(std::size_t{graph_.max_degree()} + 1);
    for (NodeId i = 0; i < graph_.nodes(); ++i) {
      const double degree = graph_.degree(i);
      work[graph_.degree(i)] += degree * degree;
    }
    double sum = 0;
    for (std::uint32_t degree = 0; degree < work.size(); ++degree) {
      sum += work[degree];
      if (sum > kMostWork) return degree - 1;
    }
    return graph_.max_degree();
  }

  static std::size_t bucket_of(std::int32_t balance) {
    return static_cast<std::size_t>(std::clamp(balance, -kMostBalance, kMostBalance) + kMostBalance);
  }

  // Entries are not removed when a balance changes; those that are out of date are found out here.
  NodeId choose() {
    for (; best_ < kBuckets; ++best_) {
      auto& bucket = buckets_[best_];
      while (!bucket.empty()) {
        const NodeId node = bucket.back();
        bucket.pop_back();
        if (balances_[node] == kDone) continue;
        const std::size_t now = bucket_of(balances_[node]);
        if (now == best_) return node;
        if (now > best_ && buckets_[now].size() < 2 * kBucketNodes) buckets_[now].push_back(node);
      }
    }
    while (balances_[fallback_[next_fallback_]] == kDone) ++next_fallback_;
    return fallback_[next_fallback_];
  }

  // Records missing minus records there: one that arrives moves it by 2.
  void shift(NodeId node, std::int32_t by) {
    if (balances_[node] == kDone) return;
    balances_[node] += by;
    if (by > 0) return;
    const std::size_t now = bucket_of(balances_[node]);
    auto& bucket = buckets_[now];
    if (bucket.size() == 2 * kBucketNodes) bucket.erase(bucket.begin(), bucket.begin() + kBucketNodes);
    bucket.push_back(node);
    best_ = std::min(best_, now);
  }

  void shift_users(NodeId record, std::int32_t by) {
    if (graph_.degree(record) > most_degree_) return;
    shift(record, by);
    for (const NodeId node : graph_.neighbours(record)) shift(node, by);
  }

  void use(NodeId record) {
    --uses_left_[record];
    const std::uint32_t place = places_[record];
    if (place != kNoPlace) {
      used_again_[place] = true;
      if (uses_left_[record] == 0) give_up(place);
    } else if (uses_left_[record] != 0) {
      if (free_.empty()) evict();
      places_[record] = free_.back();
      cache_[free_.back()] = record;
      used_again_[free_.back()] = true;
      free_.pop_back();
      shift_users(record, -2);
    }
  }

  void give_up(std::uint32_t place) {
    places_[cache_[place]] = kNoPlace;
    free_.push_back(place);
  }

  // A second chance for what was used since the hand came by: as good as least recently used, without its list.
  void evict() {
    const auto step = [this] { hand_ = hand_ + 1 == cache_.size() ? 0 : hand_ + 1; };
    for (; used_again_[hand_]; step()) used_again_[hand_] = false;
    give_up(static_cast<std::uint32_t>(hand_));
    shift_users(cache_[hand_], 2);
    step();
  }

  const Graph& graph_;
  std::vector<std::int32_t> balances_;
  std::vector<std::uint32_t> uses_left_;
  std::vector<std::uint32_t> places_;  // of records in the cache
  std::vector<NodeId> fallback_;
  std::size_t next_fallback_ = 0;
  std::uint32_t most_degree_;
  std::vector<NodeId> cache_;
  std::vector<bool> used_again_;
  std::vector<std::uint32_t> free_;
  std::size_t hand_ = 0;
  std::array<std::vector<NodeId>, kBuckets> buckets_;
  std::size_t best_ = kBuckets;  // no bucket before it has entries
};

}  // namespace

std::vector<NodeId> locality_order(const Graph& graph) { return GreedyOrder(graph).run(); }

}  // namespace shoal
