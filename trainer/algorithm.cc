#include "trainer/algorithm.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/error.h"
#include "trainer/train_options.h"

namespace shoal {
namespace {

// Filled before main() by the algorithms' own files.
std::map<std::string, AlgorithmEntry>& registry() {
  static std::map<std::string, AlgorithmEntry> entries;
  return entries;
}

}  // namespace

RegisterAlgorithm::RegisterAlgorithm(AlgorithmEntry entry) {
  const std::string name = entry.name;
  const bool is_new = registry().emplace(name, std::move(entry)).second;
  SHOAL_CHECK(is_new);
}

const std::map<std::string, AlgorithmEntry>& algorithms() { return registry(); }

std::unique_ptr<Algorithm> make_algorithm(const AlgorithmContext& context) {
  return algorithms().at(context.options.algorithm).make(context);
}

std::string algorithm_option(const TrainOptions& options, const std::string& name) {
  const auto given = options.algorithm_options.find(name);
  if (given != options.algorithm_options.end()) return given->second;
  for (const auto& [algorithm, entry] : algorithms()) {
    const auto found = std::ranges::find(entry.options, name, &OptionForm::name);
    if (found != entry.options.end()) return found->standard;
  }
  SHOAL_CHECK(!"no algorithm has registered such an option");
  return "";
}

double Algorithm::expected_work(NodeId node) const {
  const auto reads = std::min<std::size_t>(context_.graph.degree(node), max_reads());
  return context_.options.local_steps + kRecordWork * static_cast<double>(1 + reads);
}

std::string Algorithm::text(const std::string& option) const { return algorithm_option(context_.options, option); }
bool Algorithm::flag(const std::string& option) const { return text(option) == "true"; }
std::uint64_t Algorithm::whole(const std::string& option) const { return parse_whole(text(option)).value(); }
double Algorithm::real(const std::string& option) const { return parse_real(text(option)).value(); }

OptionForm mixing_option() {
  return choice_option("mixing", {"metropolis", "uniform"}, "metropolis",
                       "Mixing weights: metropolis (keeps the mean on any graph), uniform 1/(degree+1) (where all "
                       "degrees are the same)");
}

OptionForm average_buffers_option() { return flag_option("average-buffers", "Mix BatchNorm's running statistics too"); }

Mixing mixing_of(const TrainOptions& options) {
  return algorithm_option(options, "mixing") == "uniform" ? Mixing::kUniform : Mixing::kMetropolis;
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
