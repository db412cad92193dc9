#include "trainer/graph_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <string_view>

namespace shoal {
namespace {

// A node and its neighbours must be no more than this part of a graph that stands for a larger one.
constexpr NodeId kSmallPart = 16;

std::string_view kind_of(std::string_view graph) { return graph.substr(0, graph.find(':')); }

std::string_view after_kind(std::string_view graph) {
  const std::size_t colon = graph.find(':');
  return colon == std::string_view::npos ? std::string_view() : graph.substr(colon + 1);
}

template <typename Number>
Number first_number(std::string_view graph) {
  const std::string_view text = after_kind(graph);
  Number value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// "random-regular", "4" and what follows the first number of "random-regular:8".
std::string with_first_number(const std::string& graph, std::string_view number) {
  const std::string_view rest = after_kind(graph);
  const std::size_t next = rest.find(':');
  return fmt::format("{}:{}{}", kind_of(graph), number, next == std::string_view::npos ? "" : rest.substr(next));
}

}  // namespace

NodeId nodes_at_most(const std::string& graph, NodeId nodes) {
  const std::string_view kind = kind_of(graph);
  if (kind == "file" || nodes == 0) return 0;
  if (kind == "hypercube") return std::bit_floor(nodes);
  // A number with many factors, so that the grid's sides are about equal.
  if (kind == "torus") return nodes < 16 ? nodes : nodes / 16 * 16;
  if (kind == "random-regular" || kind == "ring-lattice" || kind == "watts-strogatz") {
    const auto degree = first_number<std::uint32_t>(graph);
    const NodeId valid = kind == "random-regular" && degree % 2 != 0 ? nodes / 2 * 2 : nodes;
    return valid > degree ? valid : 0;
  }
  if (kind == "barabasi-albert") return nodes > first_number<std::uint32_t>(graph) ? nodes : 0;
  return nodes;
}

std::string resized_graph(const std::string& graph, NodeId from, NodeId to) {
  // "erdos-renyi:P" gives a node P * n neighbours; all others name the degree itself, or have it by their kind.
  if (kind_of(graph) != "erdos-renyi") return graph;
  const double probability = first_number<double>(graph) * from / to;
  return with_first_number(graph, fmt::format("{}", std::min(1.0, probability)));
}

NodeId least_alike(const std::string& graph, std::uint32_t max_degree) {
  const std::string_view kind = kind_of(graph);
  if (kind == "file" || kind == "complete") return 0;
  if (kind == "star" || kind == "hypercube" || kind == "exponential") return 2;
  // Its largest degree, unlike all others, is that of a few.
  if (kind == "barabasi-albert") return kSmallPart * 2 * first_number<std::uint32_t>(graph);
  return kSmallPart * max_degree;
}

std::vector<std::string> sparser_graphs(const std::string& graph) {
  const std::string_view kind = kind_of(graph);
  std::vector<std::string> graphs;
  if (kind == "random-regular" || kind == "ring-lattice" || kind == "watts-strogatz" || kind == "barabasi-albert") {
    const bool even = kind != "barabasi-albert";
    const auto least = even ? 2U : 1U;
    for (auto number = first_number<std::uint32_t>(graph) / 2; number >= least; number /= 2) {
      graphs.push_back(with_first_number(graph, std::to_string(even ? number / 2 * 2 : number)));
    }
  } else if (kind == "erdos-renyi") {
    const auto probability = first_number<double>(graph);
    for (const double part : {2., 4., 8.})
      graphs.push_back(with_first_number(graph, fmt::format("{:.3g}", probability / part)));
  }
  if (kind != "ring") graphs.emplace_back("ring");
  return graphs;
}

}  // namespace shoal
