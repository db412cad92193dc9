// Prints the table of docs/results.md: public records read per node and round, by order, with a cache for 1/16 of them.
//
//   graph_order_report random-regular:8@10000 torus@10000 file:facebook_combined.txt

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "store/error.h"
#include "tests/trainer/belady_reads.h"
#include "trainer/graph.h"
#include "trainer/random.h"

namespace shoal {
namespace {

using Order = std::vector<NodeId>;

Order by_id(const Graph& graph) {
  Order order(graph.nodes());
  std::iota(order.begin(), order.end(), NodeId{0});
  return order;
}

Order at_random(const Graph& graph) {
  Order order = by_id(graph);
  RandomStream random(1, Purpose::kTest);
  for (NodeId i = graph.nodes(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

// From `root`; low degrees first if asked for.
enum class Ties { kById, kByDegree };
Order breadth_first(const Graph& graph, NodeId root, Ties ties) {
  std::vector<bool> seen(graph.nodes());
  Order queue = {root};
  seen[root] = true;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const auto found = static_cast<std::ptrdiff_t>(queue.size());
    for (const NodeId next : graph.neighbours(queue[i])) {
      if (!seen[next]) queue.push_back(next);
      seen[next] = true;
    }
    if (ties == Ties::kById) continue;
    std::stable_sort(queue.begin() + found, queue.end(),
                     [&](NodeId a, NodeId b) { return graph.degree(a) < graph.degree(b); });
  }
  return queue;
}

Order cuthill_mckee(const Graph& graph) {
  Order order = breadth_first(graph, breadth_first(graph, 0, Ties::kById).back(), Ties::kByDegree);
  std::ranges::reverse(order);
  return order;
}

// Ten rounds of taking the label that most neighbours have; labels in the order of Cuthill-McKee.
Order by_label(const Graph& graph) {
  Order order = cuthill_mckee(graph);
  std::vector<NodeId> labels = by_id(graph);
  std::vector<std::uint32_t> counts(graph.nodes());
  for (int round = 0; round < 10; ++round) {
    for (const NodeId node : order) {
      NodeId best = labels[node];
      for (const NodeId other : graph.neighbours(node)) ++counts[labels[other]];
      for (const NodeId other : graph.neighbours(node)) {
        if (counts[labels[other]] > counts[best]) best = labels[other];
      }
      for (const NodeId other : graph.neighbours(node)) counts[labels[other]] = 0;
      labels[node] = best;
    }
  }
  std::vector<std::size_t> first(graph.nodes(), order.size());
  for (std::size_t i = order.size(); i-- > 0;) first[labels[order[i]]] = i;
  std::ranges::stable_sort(order, {}, [&](NodeId node) { return first[labels[node]]; });
  return order;
}

void report(const std::string& argument) {
  const std::size_t at = argument.rfind('@');
  const NodeId nodes = at == std::string::npos ? 0 : static_cast<NodeId>(std::atoi(argument.c_str() + at + 1));
  const std::string spec = argument.substr(0, at);
  const Graph graph = make_graph(spec, nodes, 1).graph;
  const auto start = std::chrono::steady_clock::now();
  const Order chosen = locality_order(graph);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto reads = [&](const Order& order) {
    return static_cast<double>(belady_reads(graph, order, graph.nodes() / 16)) / graph.nodes();
  };
  const double id = reads(by_id(graph));
  const double random = reads(at_random(graph));
  const double best = reads(chosen);
  fmt::print("| {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | **{:.2f}** | {:.2f} | {:.2f} | {:.2f} |\n", spec,
             graph.nodes(), id, random, reads(breadth_first(graph, 0, Ties::kById)), reads(cuthill_mckee(graph)),
             reads(by_label(graph)), best, best / id, best / random, seconds);
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  fmt::print(
      "| graph | nodes | id | random | breadth first | Cuthill-McKee | labels | **chosen** | to id | to random | s "
      "|\n");
  fmt::print("|---|---|---|---|---|---|---|---|---|---|---|\n");
  try {
    for (int i = 1; i < argc; ++i) shoal::report(argv[i]);
  } catch (const shoal::Error& error) {
    fmt::print(stderr, "graph_order_report: {}\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}
