#include "trainer/algorithm.h"

#include <fmt/format.h>

#include <map>

#include "store/error.h"

namespace shoal {
namespace {

struct Entry {
  std::string summary;
  AlgorithmMaker maker;
};

// Filled before main() by the algorithms' own files.
std::map<std::string, Entry>& registry() {
  static std::map<std::string, Entry> entries;
  return entries;
}

}  // namespace

RegisterAlgorithm::RegisterAlgorithm(std::string name, std::string summary, AlgorithmMaker maker) {
  const bool is_new = registry().emplace(std::move(name), Entry{std::move(summary), std::move(maker)}).second;
  SHOAL_CHECK(is_new);
}

std::unique_ptr<Algorithm> make_algorithm(const std::string& name, const AlgorithmContext& context) {
  const auto found = registry().find(name);
  if (found == registry().end()) {
    throw Error(fmt::format("--algorithm {}: there is no such algorithm; choose from {}", name,
                            fmt::join(algorithm_names(), ", ")),
                ExitCode::kUsage);
  }
  return found->second.maker(context);
}

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : registry()) names.push_back(name);
  return names;
}

std::string algorithm_choices() {
  std::string text;
  for (const auto& [name, entry] : registry()) text += fmt::format("  {:<12}{}\n", name, entry.summary);
  return text;
}

std::shared_ptr<const AccessPlan> everybody_acts(const Graph& graph, const std::vector<NodeId>& order,
                                                 Neighbours neighbours) {
  auto plan = std::make_shared<AccessPlan>();
  plan->reserve(order.size(), neighbours == Neighbours::kAll ? 2 * graph.edges() : 0);
  for (const NodeId node : order) {
    plan->add(StepKind::kUpdate, node,
              neighbours == Neighbours::kAll ? graph.neighbours(node) : std::span<const NodeId>{});
  }
  return plan;
}

}  // namespace shoal
