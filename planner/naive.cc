#include "planner/naive.h"

#include <fmt/format.h>

#include <functional>

#include "planner/run_plan.h"
#include "planner/whole.h"
#include "trainer/describe.h"

namespace shoal {
namespace {

constexpr std::uint64_t kRam = std::uint64_t{4} << 30;
constexpr unsigned kDegree = 8;
// Not this machine's cores and disk: the table is the same everywhere.
constexpr unsigned kThreads = 2;

struct Known {
  const char* model;
  const char* data;
  const char* optimizer;
  NodeId nodes;
  std::uint32_t batch;
  std::uint64_t published_gb;
};
// The figures of the framework that Shoal was born from, degree 8.
constexpr Known kKnown[] = {
    {"resnet18", "synthetic-cifar10", "adam", 50, 128, 30},
    {"resnet18", "synthetic-cifar10", "adam", 500, 128, 280},
    {"lenet5", "synthetic-mnist", "sgd", 10'000, 64, 94},
    {"lenet5", "synthetic-mnist", "sgd", 100'000, 64, 710},
};

NaiveRow row_of(const Known& known) {
  TrainOptions options;
  options.model = known.model;
  options.data = known.data;
  options.optimizer.name = known.optimizer;
  options.nodes = known.nodes;
  options.batch = known.batch;
  options.graph = fmt::format("random-regular:{}", kDegree);
  options.threads = kThreads;
  options.eval_every = 10;
  options.ram_bytes = kRam;
  options.store = "store";
  options.store_io = IoEngine::kDirect;
  DescribedRun describe(options);
  const RunPlan plan = Planner(std::ref(describe), Machine{}, std::nullopt).plan({}, Effort::kFull);
  std::uint64_t vectors = 2 + kDegree;  // weights, gradient, neighbours
  for (const StateItem& item : plan.run.items) vectors += item.name.starts_with("optimizer.") ? 1 : 0;
  NaiveRow row;
  row.run = fmt::format("{} x {}, {}", known.nodes, known.model, known.optimizer);
  row.published_bytes = known.published_gb * 1'000'000'000;
  row.computed_bytes = vectors * plan.run.parameters * sizeof(float) * known.nodes;
  row.least_ram_bytes = plan.run.least_ram_bytes;
  row.ram_bytes = kRam;
  row.peak_rss_bytes = plan.peak_rss_bytes;
  row.disk_bytes = whole(plan.disk.peak_bytes());
  return row;
}

}  // namespace

std::vector<NaiveRow> compare_naive() {
  std::vector<NaiveRow> rows;
  for (const Known& known : kKnown) rows.push_back(row_of(known));
  return rows;
}

std::string naive_text(const std::vector<NaiveRow>& rows) {
  // As the figures were published: in powers of ten.
  const auto gigabytes = [](std::uint64_t bytes) {
    return fmt::format("{:.1f} GB", static_cast<double>(bytes) * 1e-9);
  };
  constexpr const char* kLine = "{:<26}{:>14}{:>14}{:>16}{:>18}{:>14}\n";
  std::string text = fmt::format(fmt::runtime(kLine), "degree 8", "all in RAM,", "all in RAM,", "Shoal's least",
                                 "Shoal's RSS at", "Shoal's");
  text += fmt::format(fmt::runtime(kLine), "", "published", "at the least", "--ram", "--ram 4GiB", "disk");
  for (const NaiveRow& row : rows) {
    text += fmt::format(fmt::runtime(kLine), row.run, gigabytes(row.published_bytes), gigabytes(row.computed_bytes),
                        gigabytes(row.least_ram_bytes), gigabytes(row.peak_rss_bytes), gigabytes(row.disk_bytes));
  }
  text +=
      "\nAt the least: weights, gradient, optimizer state and a copy of each neighbour's weights, for every node;\n"
      "what was published has the program's own besides.\n";
  return text;
}

nlohmann::json naive_json(const std::vector<NaiveRow>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const NaiveRow& row : rows) {
    list.push_back({{"run", row.run},
                    {"published_bytes", row.published_bytes},
                    {"computed_bytes", row.computed_bytes},
                    {"least_ram_bytes", row.least_ram_bytes},
                    {"ram_budget_bytes", row.ram_bytes},
                    {"peak_rss_bytes", row.peak_rss_bytes},
                    {"disk_peak_bytes", row.disk_bytes}});
  }
  return list;
}

}  // namespace shoal
