// What a run leaves behind: the summary and a line per node.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "store/size_text.h"
#include "trainer/json_number.h"
#include "trainer/training.h"

namespace shoal {
namespace {

using nlohmann::json;

std::uint64_t peak_rss() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

void Training::say_what_runs() {
  std::string text = requirements_.text(experiment_);
  text.pop_back();  // the line's end
  progress_.say(text);
  const std::string& note = experiment_.network.note;
  progress_.say(fmt::format("  network    {}: {} edges, degree {} to {}, diameter about {}, spectral gap {:.3g}{}{}",
                            options_.graph, statistics_.edges, statistics_.least_degree, statistics_.largest_degree,
                            statistics_.diameter_estimate, statistics_.spectral_gap,
                            statistics_.connected ? "" : " (not connected)", note.empty() ? "" : "; " + note));
  for (const ModeReport& mode : store_->report().modes) {
    if (mode.degraded()) {
      progress_.say(fmt::format("  {}: {} instead of {} ({})", mode.what, mode.actual, mode.requested, mode.reason));
    }
  }
}

json Training::summary(const InspectWork& inspection) {
  const StoreReport store = store_->report();
  json memory = requirements_.json();
  for (std::size_t tag = 0; tag < kMemoryTagCount; ++tag) {
    memory[std::string(name(static_cast<MemoryTag>(tag)))] = store.memory[tag];
  }
  json modes = json::array();
  for (const ModeReport& mode : store.modes) {
    modes.push_back(
        {{"what", mode.what}, {"requested", mode.requested}, {"actual", mode.actual}, {"reason", mode.reason}});
  }
  const double wall = std::chrono::duration<double>(Clock::now() - start_).count();
  const double training = totals_.training_seconds;
  json result = {
      {"nodes", options_.nodes},
      {"rounds", options_.rounds},
      {"ranks", 1},
      {"threads", options_.threads},
      {"algorithm", options_.algorithm},
      {"model", options_.model},
      {"parameters", experiment_.model->parameter_count()},
      {"resumed_at_round", first_round_},
      {"node_steps", totals_.node_steps},
      {"wall_seconds", wall},
      {"training_seconds", training},
      {"evaluation_seconds", totals_.evaluation_seconds},
      {"checkpoint_seconds", totals_.checkpoint_seconds},
      {"node_steps_per_second", training > 0 ? static_cast<double>(totals_.node_steps) / training : 0},
      {"state_bytes_per_node", requirements_.state_bytes_per_node},
      {"state_hash", inspection.state_hash()},
      {"ram_budget_bytes", options_.ram_bytes},
      {"least_ram_bytes", requirements_.least_ram_bytes},
      {"peak_rss_bytes", peak_rss()},
      {"store_bytes", store.slab_bytes + store.cold_bytes},
      {"bytes_read", totals_.bytes_read},
      {"bytes_written", totals_.bytes_written},
      {"lower_bound_bytes", totals_.lower_bound},
      {"remote_bytes", 0},
      {"stall_seconds",
       {{"store", totals_.times.waiting_for_store},
        {"compute", totals_.times.waiting_for_compute},
        {"write_back", totals_.times.waiting_for_write_back}}},
      {"mix_seconds", totals_.times.mix},
      {"compute_seconds", totals_.times.compute},
      {"loss", json_number(loss_)},
      {"consensus_distance", json_number(consensus_distance_)},
      {"memory", memory},
      {"modes", modes},
      {"graph",
       {{"edges", statistics_.edges},
        {"degree_min", statistics_.least_degree},
        {"degree_mean", statistics_.mean_degree},
        {"degree_max", statistics_.largest_degree},
        {"diameter_estimate", statistics_.diameter_estimate},
        {"spectral_gap", statistics_.spectral_gap},
        {"connected", statistics_.connected}}},
  };
  result["accuracy_mean"] = evaluation_.is_null() ? json(nullptr) : evaluation_["mean"];
  result["accuracy_mean_model"] = evaluation_.is_null() ? json(nullptr) : evaluation_["mean_model"];
  result["accuracy"] = evaluation_;
  return result;
}

std::string Training::nodes_csv(const InspectWork& inspection) const {
  std::string text = "node,degree,loss,accuracy,updates,version\n";
  const Graph& graph = experiment_.graph();
  // Where all nodes share one record, they share its line.
  const bool shared = inspection.lines().size() < options_.nodes;
  const std::vector<Score>& scores = evaluate_work_->scores();
  for (NodeId node = 0; node < options_.nodes; ++node) {
    const NodeId record = shared ? 0 : node;
    const InspectWork::NodeLine& line = inspection.lines()[record];
    std::string accuracy;
    const auto found = std::lower_bound(evaluated_.begin(), evaluated_.end(), record);
    if (found != evaluated_.end() && *found == record) {
      const auto place = static_cast<std::size_t>(found - evaluated_.begin());
      if (place < scores.size() && scores[place].samples > 0) {
        accuracy = fmt::format("{:.4f}",
                               static_cast<double>(scores[place].correct) / static_cast<double>(scores[place].samples));
      }
    }
    text +=
        fmt::format("{},{},{:.6g},{},{},{}\n", node, graph.degree(node), line.loss, accuracy, line.steps, line.version);
  }
  return text;
}

std::string Training::names_csv() const {
  std::string text = "node,name\n";
  for (std::size_t node = 0; node < experiment_.network.names.size(); ++node) {
    text += fmt::format("{},{}\n", node, experiment_.network.names[node]);
  }
  return text;
}

}  // namespace shoal
