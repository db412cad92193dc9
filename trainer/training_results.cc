// What a run leaves behind: the summary and a line per node.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/trace_file.h"
#include "planner/record_items.h"
#include "store/size_text.h"
#include "trainer/describe.h"
#include "trainer/json_number.h"
#include "trainer/training.h"

namespace shoal {
namespace {

using nlohmann::json;

// Not getrusage(): that also counts the process which started this one, before it became this program.
std::uint64_t peak_rss() {
  std::ifstream status("/proc/self/status");
  constexpr std::string_view kName = "VmHWM:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(kName)) return std::stoull(line.substr(kName.size())) * 1024;
  }
  return 0;
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

json modes_json(const StoreReport& store) {
  json modes = json::array();
  for (const ModeReport& mode : store.modes) {
    modes.push_back(
        {{"what", mode.what}, {"requested", mode.requested}, {"actual", mode.actual}, {"reason", mode.reason}});
  }
  return modes;
}

}  // namespace

std::string Training::description() const {
  std::string text = requirements_.text(experiment_);
  if (alone()) return text;
  text += fmt::format("  ranks      {} on {} host{}; the above is rank 0's\n", ranks_.size(), ranks_.hosts(),
                      ranks_.hosts() == 1 ? "" : "s");
  if (partition_figures_.nodes.empty()) return text;  // one record for all, or not rank 0
  const PartitionFigures& f = partition_figures_;
  const auto [least, most] = std::minmax_element(f.nodes.begin(), f.nodes.end());
  text += fmt::format(
      "  partition  {} to {} nodes a rank, {:.1f} % above the mean work at most, {} of {} edges cut ({} in a random "
      "split); at least {} remote reads a round ({})\n",
      *least, *most, 100 * f.imbalance, f.cut_edges, experiment_.graph().edges(), f.random_cut_edges, f.remote_reads,
      f.random_remote_reads);
  return text;
}

void Training::say_what_runs() {
  std::string text = description();
  text.pop_back();  // the line's end
  progress_.say(text);
  if (!ranks_.remarks().empty()) progress_.say("  launch     " + ranks_.remarks());
  if (window_) progress_.say("  window     " + window_->description());
  if (free()) {
    progress_.say("  free       ranks do not wait for each other: the result depends on their speeds, run by run");
  }
  if (experiment_.model->random() && options_.threads > 1) {
    progress_.say(
        "  random     the model draws random numbers (dropout), so its steps run one at a time: --threads 1 with "
        "--intra-op uses the cores");
  }
  const std::string& note = experiment_.network.note;
  progress_.say(
      fmt::format("  network    {}: {}{}", options_.graph, statistics_.text(), note.empty() ? "" : "; " + note));
  say_degraded_modes();
}

// Each once, with the ranks that have it; every rank's own in its log.
void Training::say_degraded_modes() {
  const std::string own = modes_json(store_->report()).dump();
  std::vector<std::string> all = {own};
  if (const auto gathered = ranks_.gather(std::as_bytes(std::span(own))); ranks_.first()) {
    all.clear();
    std::ranges::transform(gathered, std::back_inserter(all), text_of);
  }
  struct Found {
    std::string reason;  // the first rank's
    std::vector<std::size_t> ranks;
  };
  std::map<std::string, Found> degraded;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    for (const json& mode : json::parse(all[rank])) {
      const auto word = [&](const char* key) { return mode[key].get<std::string>(); };
      if (word("actual") == word("requested")) continue;
      Found& found = degraded[fmt::format("{}: {} instead of {}", word("what"), word("actual"), word("requested"))];
      if (found.ranks.empty()) found.reason = word("reason");
      found.ranks.push_back(rank);
    }
  }
  for (const auto& [what, found] : degraded) {
    const bool everywhere = found.ranks.size() == all.size();
    progress_.say(fmt::format("  {} ({}){}", what, found.reason,
                              everywhere ? "" : fmt::format(", on rank {}", fmt::join(found.ranks, ", "))));
  }
}

// What rank 0 needs to know of every rank for the summary.
json Training::of_this_rank() const {
  const StoreReport store = store_->report();
  const NeighbourFigures& remote = totals_.neighbours;
  return {{"rank", ranks_.rank()},
          {"host", ranks_.host()},
          {"nodes", share_.nodes()},
          {"guests", share_.guests()},
          {"least_ram_bytes", requirements_.least_ram_bytes},
          {"node_steps", totals_.node_steps},
          {"peak_rss_bytes", peak_rss()},
          {"modes", modes_json(store)},
          {"store_bytes", store.slab_bytes + store.cold_bytes},
          {"store_file_bytes", store.slab_file_bytes + store.cold_bytes},
          {"slab_file_bytes", store.slab_file_bytes},
          {"cold_file_bytes", store.cold_bytes},
          {"bytes_read", store.bytes_read},
          {"bytes_written", store.bytes_written},
          {"checkpoint_bytes", store.checkpoint_bytes_written},
          {"cold_bytes_read", store.cold_bytes_read},
          {"cold_bytes_written", store.cold_bytes_written},
          {"lower_bound_bytes", totals_.lower_bound},
          {"mix_seconds", totals_.times.mix},
          {"compute_seconds", totals_.times.compute},
          {"training_seconds", totals_.training_seconds},
          {"communication_cpu_seconds", totals_.communication_cpu_seconds},
          {"stall_seconds",
           {{"store", totals_.times.waiting_for_store},
            {"neighbours", totals_.times.waiting_for_neighbours},
            {"compute", totals_.times.waiting_for_compute},
            {"write_back", totals_.times.waiting_for_write_back}}},
          {"remote",
           {{"bytes", remote.bytes()},
            {"lower_bound_bytes", totals_.remote_lower_bound},
            {"shared_memory_bytes", remote.shared_bytes},
            {"one_sided_bytes", remote.one_sided_bytes},
            {"requested_bytes", remote.requested_bytes},
            {"torn_reads", remote.torn},
            {"lag_sum", remote.lag_sum},
            {"lag_max", remote.lag_most},
            {"lag_count", remote.lag_count},
            {"rounds_held_back", totals_.rounds_held_back}}}};
}

// The hash of all ranks' records and, on rank 0, a line for every node.
void Training::gather_lines(const InspectWork& inspection) {
  const bool counts = !share_.whole() || ranks_.first();
  auto numbers = (counts ? inspection.hash() : StateHash()).numbers();
  ranks_.sum(numbers);
  state_hash_ = StateHash::from_numbers(numbers);
  if (share_.whole()) {
    node_lines_ = inspection.lines();
    return;
  }
  const auto lines = std::as_bytes(std::span(inspection.lines()));
  const auto nodes = std::as_bytes(std::span(share_.own()));
  const auto all_lines = ranks_.gather(lines);
  const auto all_nodes = ranks_.gather(nodes);
  if (!ranks_.first()) return;
  node_lines_.resize(options_.nodes);
  for (unsigned rank = 0; rank < ranks_.size(); ++rank) {
    for (std::size_t k = 0; k < all_nodes[rank].size() / sizeof(NodeId); ++k) {
      NodeId node = 0;
      std::memcpy(&node, all_nodes[rank].data() + k * sizeof(node), sizeof(node));
      std::memcpy(&node_lines_[node], all_lines[rank].data() + k * sizeof(InspectWork::NodeLine),
                  sizeof(InspectWork::NodeLine));
    }
  }
}

// Of all ranks.
Trace::Report Training::trace_report() {
  Trace::Report report = trace_->report();
  std::array<std::int64_t, 2> counts = {static_cast<std::int64_t>(report.events),
                                        static_cast<std::int64_t>(report.left_out)};
  ranks_.sum(counts);
  report.events = static_cast<std::uint64_t>(counts[0]);
  report.left_out = static_cast<std::uint64_t>(counts[1]);
  report.rounds_with_nodes =
      static_cast<std::uint64_t>(ranks_.least(static_cast<std::int64_t>(report.rounds_with_nodes)));
  return report;
}

// Rank 0 writes it: another host may not see the folder. Turn by turn, so that it never holds more than a piece.
void Training::write_trace() {
  TraceText own(*trace_, ranks_.rank(), alone() ? "shoal-train" : ranks_.name());
  std::optional<TraceFile> file;
  if (ranks_.first()) file.emplace(options_.out / "trace.json");
  for (bool more = true; more;) {
    const std::string text = own.next(TraceFile::kPiece / ranks_.size());
    for (const auto& piece : ranks_.gather(std::as_bytes(std::span(text)))) {
      file->add({reinterpret_cast<const char*>(piece.data()), piece.size()});
    }
    more = ranks_.least(text.empty() ? 0 : -1) < 0;
  }
  if (file) file->finish();

  const Trace::Report report = trace_report();
  if (report.left_out == 0) return;
  progress_.say(
      fmt::format("trace.json has the first {} rounds, and the nodes of the first {}: {} events found no room",
                  report.rounds, report.rounds_with_nodes, report.left_out));
}

json Training::summary() {
  const Trace::Report trace = trace_ ? trace_report() : Trace::Report{};
  const std::string own = of_this_rank().dump();
  json per_rank = json::array();
  for (const auto& text : ranks_.gather(std::as_bytes(std::span(own)))) {
    per_rank.push_back(json::parse(text_of(text)));
  }
  if (!ranks_.first()) return {};
  const auto total = [&](const char* key) {
    std::uint64_t sum = 0;
    for (const json& rank : per_rank) sum += rank[key].get<std::uint64_t>();
    return sum;
  };
  const auto largest = [&](const char* key) {
    std::uint64_t most = 0;
    for (const json& rank : per_rank) most = std::max(most, rank[key].get<std::uint64_t>());
    return most;
  };
  const auto mean = [&](const char* key) {
    double sum = 0;
    for (const json& rank : per_rank) sum += rank["stall_seconds"][key].get<double>();
    return sum / static_cast<double>(per_rank.size());
  };
  const auto mean_of = [&](const char* key) {
    double sum = 0;
    for (const json& rank : per_rank) sum += rank[key].get<double>();
    return sum / static_cast<double>(per_rank.size());
  };
  json remote = json::object();
  for (const auto& [key, value] : per_rank[0]["remote"].items()) {
    std::uint64_t sum = 0;
    for (const json& rank : per_rank) {
      const auto each = rank["remote"][key].get<std::uint64_t>();
      sum = key == "lag_max" ? std::max(sum, each) : sum + each;
    }
    remote[key] = sum;
  }
  const auto node_steps = total("node_steps");
  const StoreReport store = store_->report();
  json memory = requirements_.json();
  for (std::size_t tag = 0; tag < kMemoryTagCount; ++tag) {
    memory[std::string(name(static_cast<MemoryTag>(tag)))] = store.memory[tag];
  }
  json record;
  for (const StateItem& item : record_items(state_items(experiment_), experiment_.layout->state())) {
    record[item.name] = item.bytes;
  }
  const double wall = std::chrono::duration<double>(Clock::now() - start_).count();
  const double training = totals_.training_seconds;
  json result = {
      {"nodes", options_.nodes},
      {"rounds", options_.rounds},
      {"ranks", ranks_.size()},
      {"hosts", ranks_.hosts()},
      {"threads", options_.threads},
      {"batch", options_.batch},
      {"algorithm", options_.algorithm},
      {"model", options_.model},
      {"parameters", experiment_.model->parameter_count()},
      {"resumed_at_round", first_round_},
      {"node_steps", node_steps},
      {"wall_seconds", wall},
      {"training_seconds", training},
      {"evaluation_seconds", totals_.evaluation_seconds},
      {"checkpoint_seconds", totals_.checkpoint_seconds},
      {"node_steps_per_second", training > 0 ? static_cast<double>(node_steps) / training : 0},
      {"state_bytes_per_node", requirements_.state_bytes_per_node},
      {"record", record},
      {"records", requirements_.records},  // of rank 0
      {"state_hash", state_hash_.text()},
      {"ram_budget_bytes", options_.ram_bytes},
      {"least_ram_bytes", largest("least_ram_bytes")},
      {"peak_rss_bytes", largest("peak_rss_bytes")},  // of any rank
      {"store_bytes", total("store_bytes")},
      {"store_file_bytes", total("store_file_bytes")},
      {"slab_file_bytes", total("slab_file_bytes")},
      {"cold_file_bytes", total("cold_file_bytes")},
      {"bytes_read", total("bytes_read")},
      {"bytes_written", total("bytes_written")},
      {"checkpoints", totals_.checkpoints},
      {"checkpoint_bytes", total("checkpoint_bytes")},
      {"cold_bytes_read", total("cold_bytes_read")},
      {"cold_bytes_written", total("cold_bytes_written")},
      {"lower_bound_bytes", total("lower_bound_bytes")},
      {"remote_bytes", remote["bytes"]},
      {"stall_seconds",
       {{"store", mean("store")},
        {"neighbours", mean("neighbours")},
        {"compute", mean("compute")},
        {"write_back", mean("write_back")}}},
      {"mix_seconds", mean_of("mix_seconds")},
      {"compute_seconds", mean_of("compute_seconds")},
      {"loss", json_number(loss_)},
      {"consensus_distance", json_number(consensus_distance_)},
      {"warning", warning_.empty() ? json(nullptr) : json(warning_)},
      {"memory", memory},
      {"modes", per_rank[0]["modes"]},  // of rank 0
      {"graph",
       {{"edges", statistics_.edges},
        {"degree_min", statistics_.least_degree},
        {"degree_mean", statistics_.mean_degree},
        {"degree_max", statistics_.largest_degree},
        {"diameter_estimate", statistics_.diameter_estimate},
        {"spectral_gap", statistics_.spectral_gap},
        {"spectral_gap_is_bound", statistics_.spectral_gap_is_bound},
        {"connected", statistics_.connected}}},
  };
  result["accuracy_mean"] = evaluation_.is_null() ? json(nullptr) : evaluation_["mean"];
  result["accuracy_mean_model"] = evaluation_.is_null() ? json(nullptr) : evaluation_["mean_model"];
  result["accuracy"] = evaluation_;
  if (trace_) {
    result["trace"] = {{"events", trace.events},
                       {"left_out", trace.left_out},
                       {"rounds", trace.rounds},
                       {"rounds_with_nodes", trace.rounds_with_nodes}};
  }
  if (alone()) return result;
  result["per_rank"] = per_rank;
  if (share_.whole()) return result;
  const auto lags = remote["lag_count"].get<std::uint64_t>();
  const auto lag_sum = remote["lag_sum"].get<double>();
  const json lag_max = remote["lag_max"];
  for (const char* key : {"lag_sum", "lag_max", "lag_count", "rounds_held_back"}) remote.erase(key);
  result["remote"] = remote;
  if (free()) {
    // In rounds that a model was behind its reader.
    result["staleness"] = {{"mean", lags > 0 ? lag_sum / static_cast<double>(lags) : 0}, {"max", lag_max}};
  }
  result["partition"] = {{"imbalance", partition_figures_.imbalance},
                         {"cut_edges", partition_figures_.cut_edges},
                         {"random_cut_edges", partition_figures_.random_cut_edges},
                         {"remote_reads", partition_figures_.remote_reads},
                         {"random_remote_reads", partition_figures_.random_remote_reads}};
  result["window"] = {{"osc", window_->component()},
                      {"self_test_seconds", window_->self_test_seconds()},
                      {"passive_progress", window_->self_test_seconds() < ArenaWindow::kAwaySeconds / 2}};
  return result;
}

std::string Training::nodes_csv() const {
  std::string text = "node,degree,loss,accuracy,updates,version\n";
  const Graph& graph = experiment_.graph();
  // Where all nodes share one record, they share its line.
  const bool shared = node_lines_.size() < options_.nodes;
  const std::vector<Score>& scores = evaluate_work_->scores();
  for (NodeId node = 0; node < options_.nodes; ++node) {
    const NodeId record = shared ? 0 : node;
    const InspectWork::NodeLine& line = node_lines_[record];
    std::string accuracy;
    const auto found = std::lower_bound(evaluated_.begin(), evaluated_.end(), record);
    if (found != evaluated_.end() && *found == record) {
      const auto place = static_cast<std::size_t>(found - evaluated_.begin());
      if (place < scores.size() && scores[place].samples > 0) {
        accuracy = fmt::format("{:.4f}",
                               static_cast<double>(scores[place].correct) / static_cast<double>(scores[place].samples));
      }
    }
    const std::string loss = line.steps > 0 ? fmt::format("{:.6g}", line.loss) : std::string();
    text += fmt::format("{},{},{},{},{},{}\n", node, graph.degree(node), loss, accuracy, line.steps, line.version);
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
