#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <string_view>

#include "store/error.h"
#include "trainer/graph.h"
#include "trainer/graph_file.h"
#include "trainer/graph_generators.h"

namespace shoal {
namespace {

// Both directions of all edges of 20,000 nodes that are all linked: 1.6 GB, and a round's plan is as long again.
constexpr NodeId kMostCompleteNodes = 20'000;
constexpr double kMostEntries = double{kMostCompleteNodes} * (kMostCompleteNodes - 1);

struct Choice {
  std::string_view usage;
  std::string_view example;
  std::string_view meaning;
};

constexpr std::array<Choice, 12> kChoices = {{
    {"ring", "ring", "each node and its two neighbours on a circle"},
    {"star", "star", "node 0 and all others"},
    {"complete", "complete", "everyone with everyone; up to 20,000 nodes"},
    {"torus", "torus", "a grid that wraps around, its sides as equal as the factors of the node count allow"},
    {"hypercube", "hypercube", "numbers that differ in one bit; a power of two of nodes"},
    {"exponential", "exponential", "distances 1, 2, 4, 8... on a circle, both ways"},
    {"ring-lattice:K", "ring-lattice:4", "the K nearest on a circle; K even"},
    {"random-regular:D", "random-regular:8", "random, every node has degree D"},
    {"erdos-renyi:P", "erdos-renyi:0.01", "random, each pair linked with probability P"},
    {"watts-strogatz:K:B", "watts-strogatz:8:0.1", "ring-lattice:K, each edge rewired with probability B"},
    {"barabasi-albert:M", "barabasi-albert:4",
     "random, new nodes link to M earlier ones, often to those with many links"},
    {"file:PATH", "file:graph.txt", "an edge list (SNAP, Matrix Market, two columns); its largest component"},
}};

std::string_view name_of(std::string_view spec) { return spec.substr(0, spec.find(':')); }

[[noreturn]] void refuse(const std::string& message) { throw Error(message, ExitCode::kUsage); }

// The numbers after the name, as many as the choice has; what is wrong with them names an example that works.
class Parameters {
 public:
  Parameters(const std::string& spec, const Choice& choice) : spec_(spec), choice_(choice) {
    std::string_view rest = std::string_view(spec_).substr(name_of(spec_).size());
    while (!rest.empty()) {
      rest.remove_prefix(1);
      texts_.push_back(rest.substr(0, rest.find(':')));
      rest.remove_prefix(texts_.back().size());
    }
    std::size_t wanted = 0;
    for (const char c : choice.usage) wanted += c == ':' ? 1 : 0;
    if (texts_.size() != wanted) fail();
  }

  std::uint32_t whole(std::size_t i) const { return parse<std::uint32_t>(i); }
  double fraction(std::size_t i) const {
    const auto value = parse<double>(i);
    if (!std::isfinite(value)) fail();
    return value;
  }

 private:
  template <typename Number>
  Number parse(std::size_t i) const {
    Number value{};
    const char* end = texts_[i].data() + texts_[i].size();
    const auto [stop, error] = std::from_chars(texts_[i].data(), end, value);
    if (error != std::errc() || stop != end) fail();
    return value;
  }
  [[noreturn]] void fail() const {
    refuse(fmt::format("--graph {}: write {}, for example {}", spec_, choice_.usage, choice_.example));
  }

  const std::string& spec_;
  const Choice& choice_;
  std::vector<std::string_view> texts_;
};

// Of a node, on average, before edges are dropped or added.
double expected_degree(std::string_view name, const Parameters& parameters, NodeId nodes) {
  if (name == "ring" || name == "star") return 2;
  if (name == "torus") return 4;
  if (name == "complete") return nodes - 1.0;
  if (name == "hypercube") return std::bit_width(nodes) - 1;
  if (name == "exponential") return 2.0 * std::bit_width(nodes);
  if (name == "erdos-renyi") return parameters.fraction(0) * (nodes - 1.0);
  if (name == "barabasi-albert") return 2.0 * parameters.whole(0);
  return parameters.whole(0);
}

void check_entries(const std::string& spec, NodeId nodes, double entries) {
  if (entries <= kMostEntries) return;
  refuse(
      fmt::format("--graph {} with {} nodes would have {:.0f} edges, too many to plan a round with; use fewer "
                  "nodes or a sparser graph (the limit is {:.0f}), or --algorithm allreduce if all shall be averaged",
                  spec, nodes, entries / 2, kMostEntries / 2));
}

void check_lattice(const std::string& spec, NodeId nodes, std::uint32_t degree) {
  if (degree == 0 || degree % 2 != 0) refuse(fmt::format("--graph {}: K must be even and at least 2", spec));
  if (degree >= nodes) refuse(fmt::format("--graph {}: K must be below the number of nodes, {}", spec, nodes));
}

NamedGraph make_regular(const std::string& spec, NodeId nodes, std::uint32_t degree, std::uint64_t seed) {
  if (degree >= nodes) refuse(fmt::format("--graph {}: D must be below the number of nodes, {}", spec, nodes));
  if (std::uint64_t{nodes} * degree % 2 != 0) {
    refuse(
        fmt::format("--graph {}: {} nodes of degree {} cannot be (nodes times degree must be even); take one node "
                    "or one degree more or less",
                    spec, nodes, degree));
  }
  if ((degree == 0 && nodes > 1) || (degree == 1 && nodes > 2)) {
    refuse(fmt::format("--graph {}: {} nodes of degree {} cannot be connected; D must be at least 2", spec, nodes,
                       degree));
  }
  return {random_regular_graph(nodes, degree, seed), {}, {}};
}

NamedGraph with_note(JoinedGraph joined) {
  std::string note;
  if (joined.joined > 0) note = fmt::format("{} edges were added to join {} parts", joined.joined, joined.joined + 1);
  return {std::move(joined.graph), {}, std::move(note)};
}

NamedGraph make_torus(NodeId nodes) {
  std::string note;
  const NodeId side = torus_side(nodes);
  if (side == 1 && nodes > 3) note = fmt::format("a torus of {} nodes, a prime number, is a ring", nodes);
  return {torus_graph(nodes), {}, std::move(note)};
}

NamedGraph make_hypercube(const std::string& spec, NodeId nodes) {
  if (!std::has_single_bit(nodes)) {
    const NodeId lower = std::bit_floor(nodes);
    refuse(fmt::format("--graph {}: {} nodes are not a power of two; take {} or {}", spec, nodes, lower,
                       std::uint64_t{lower} * 2));
  }
  return {hypercube_graph(nodes), {}, {}};
}

NamedGraph make_erdos_renyi(const std::string& spec, NodeId nodes, double probability, std::uint64_t seed) {
  if (!(probability > 0 && probability <= 1)) refuse(fmt::format("--graph {}: P must be above 0 and at most 1", spec));
  return with_note(erdos_renyi_graph(nodes, probability, seed));
}

NamedGraph make_watts_strogatz(const std::string& spec, NodeId nodes, std::uint32_t degree, double rewired,
                               std::uint64_t seed) {
  check_lattice(spec, nodes, degree);
  if (!(rewired >= 0 && rewired <= 1)) refuse(fmt::format("--graph {}: B must be from 0 to 1", spec));
  return with_note(watts_strogatz_graph(nodes, degree, rewired, seed));
}

NamedGraph make_barabasi_albert(const std::string& spec, NodeId nodes, std::uint32_t links, std::uint64_t seed) {
  if (links == 0 || links >= nodes) {
    refuse(fmt::format("--graph {}: M must be at least 1 and below the number of nodes, {}", spec, nodes));
  }
  return {barabasi_albert_graph(nodes, links, seed), {}, {}};
}

std::string graph_names() {
  std::string text;
  for (const Choice& choice : kChoices) text += fmt::format("{}{}", text.empty() ? "" : ", ", choice.usage);
  return text;
}

const Choice& choice_of(const std::string& spec) {
  for (const Choice& each : kChoices) {
    if (name_of(each.usage) == name_of(spec)) return each;
  }
  refuse(fmt::format("--graph {}: choose from {}", spec, graph_names()));
}

NamedGraph make_from_file(const std::string& spec, NodeId nodes) {
  const std::string path = spec.substr(name_of(spec).size() + 1);
  NamedGraph named = read_graph_file(path);
  if (nodes != 0 && nodes != named.graph.nodes()) {
    refuse(fmt::format("{} has {} nodes{}{}{}, not {}; leave --nodes out", path, named.graph.nodes(),
                       named.note.empty() ? "" : " (", named.note, named.note.empty() ? "" : ")", nodes));
  }
  return named;
}

}  // namespace

NamedGraph make_graph(const std::string& spec, NodeId nodes, std::uint64_t seed) {
  const std::string_view name = name_of(spec);
  const Choice& choice = choice_of(spec);
  // A path may have colons.
  if (name == "file") {
    if (spec.size() <= name.size() + 1)
      refuse(fmt::format("--graph {}: write file:PATH, for example file:graph.txt", spec));
    return make_from_file(spec, nodes);
  }
  const Parameters parameters(spec, choice);
  if (nodes == 0) refuse(fmt::format("--graph {} with 0 nodes: --nodes must be at least 1", spec));
  if (nodes == kNoNode) refuse(fmt::format("--graph {}: {} nodes are too many", spec, nodes));
  check_entries(spec, nodes, expected_degree(name, parameters, nodes) * nodes);
  if (name == "ring") return {ring_graph(nodes), {}, {}};
  if (name == "star") return {star_graph(nodes), {}, {}};
  if (name == "complete") return {complete_graph(nodes), {}, {}};
  if (name == "torus") return make_torus(nodes);
  if (name == "hypercube") return make_hypercube(spec, nodes);
  if (name == "exponential") return {exponential_graph(nodes), {}, {}};
  if (name == "ring-lattice") {
    check_lattice(spec, nodes, parameters.whole(0));
    return {ring_lattice_graph(nodes, parameters.whole(0)), {}, {}};
  }
  if (name == "random-regular") return make_regular(spec, nodes, parameters.whole(0), seed);
  if (name == "erdos-renyi") return make_erdos_renyi(spec, nodes, parameters.fraction(0), seed);
  if (name == "watts-strogatz") {
    return make_watts_strogatz(spec, nodes, parameters.whole(0), parameters.fraction(1), seed);
  }
  SHOAL_CHECK(name == "barabasi-albert");
  return make_barabasi_albert(spec, nodes, parameters.whole(0), seed);
}

std::string graph_choices() {
  std::string text;
  for (const Choice& choice : kChoices) text += fmt::format("  {:<20}{}\n", choice.usage, choice.meaning);
  text.pop_back();
  return text;
}

}  // namespace shoal
