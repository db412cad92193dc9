// Prints the table of docs/results.md: edges between ranks and records they get from each other, by split; the seconds
// are those of the split with the fewest cut edges.
//
//   rank_partition_report 2,4,7 random-regular:8@10000 torus@10000 file:facebook_combined.txt

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "store/error.h"
#include "trainer/graph.h"
#include "trainer/rank_partition.h"

namespace shoal {
namespace {

RankPartition pieces(const std::vector<NodeId>& order, unsigned ranks) {
  RankPartition result{std::vector<std::uint16_t>(order.size()), ranks, std::vector<double>(ranks)};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto rank = static_cast<std::uint16_t>(i * ranks / order.size());
    result.owner[order[i]] = rank;
    ++result.work[rank];
  }
  return result;
}

void report(const std::string& argument, unsigned ranks) {
  const std::size_t at = argument.rfind('@');
  const NodeId nodes = at == std::string::npos ? 0 : static_cast<NodeId>(std::atoi(argument.c_str() + at + 1));
  const std::string spec = argument.substr(0, at);
  const Graph graph = make_graph(spec, nodes, 1).graph;
  const std::vector<NodeId> order = locality_order(graph);
  const auto start = std::chrono::steady_clock::now();
  const RankPartition split = split_over_ranks(graph, {}, ranks, 1, order);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const PartitionFigures chosen = figures(split, graph, 1);
  const RankPartition reading = split_over_ranks(graph, {}, ranks, 1, order, Fewest::kRemoteReads);
  const PartitionFigures fewest_reads = figures(reading, graph, 1);
  const PartitionFigures plain = figures(pieces(order, ranks), graph, 1);
  const auto share = [&](std::uint64_t edges) {
    return 100 * static_cast<double>(edges) / static_cast<double>(graph.edges());
  };
  const auto per_node = [&](std::uint64_t reads) { return static_cast<double>(reads) / graph.nodes(); };
  fmt::print(
      "| {} | {} | {} | {:.1f} | {:.1f} | **{:.1f}** | {:.1f} | {:.2f} | {:.2f} | {:.2f} | **{:.2f}** | {:.2f} |\n",
      spec, graph.nodes(), ranks, share(chosen.random_cut_edges), share(plain.cut_edges), share(chosen.cut_edges),
      share(fewest_reads.cut_edges), per_node(chosen.random_remote_reads), per_node(plain.remote_reads),
      per_node(chosen.remote_reads), per_node(fewest_reads.remote_reads), seconds);
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  fmt::print(
      "| graph | nodes | ranks | cut %: random | pieces | **fewest cut** | fewest reads | reads: random | pieces | "
      "fewest "
      "cut | **fewest reads** | s |\n");
  fmt::print("|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  try {
    for (int i = 2; i < argc; ++i) {
      for (const char* ranks = argv[1]; *ranks != '\0'; ranks += *ranks == ',' ? 1 : 0) {
        char* end = nullptr;
        shoal::report(argv[i], static_cast<unsigned>(std::strtoul(ranks, &end, 10)));
        ranks = end;
      }
    }
  } catch (const shoal::Error& error) {
    fmt::print(stderr, "rank_partition_report: {}\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}
