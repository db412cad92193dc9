// Predictions against real runs: disk, bytes read and written, peak RSS.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "planner/run_plan.h"
#include "planner/train_child.h"
#include "planner/verify.h"
#include "tests/e2e/program.h"
#include "tests/planner/small_run.h"
#include "trainer/describe.h"

namespace shoal {
namespace {

struct Case {
  const char* name;
  Arguments arguments;
  double share;  // RAM, as a share of the rank's state, if that is more than the least
  unsigned ranks = 1;
  bool cold = false;  // RocksDB's compactions, which differ from run to run, are most of what moves
};

void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

constexpr double kMiB = 1 << 20;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;  // memory is then the sanitizer's, too
#else
constexpr bool kSanitized = false;
#endif

TrainOptions options_of(const Arguments& arguments) {
  std::vector<const char*> argv = {"shoal-train"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return parse_train_command(static_cast<int>(argv.size()), argv.data()).options;
}

// Within the share of what was measured, or within so many bytes.
void expect_close(const char* what, double predicted, double measured, double share, double bytes) {
  const double allowed = std::max(share * measured, bytes);
  EXPECT_NEAR(predicted, measured, allowed)
      << what << ": predicted " << predicted / kMiB << " MiB, measured " << measured / kMiB << " MiB";
}

// A verification has every line of the plan. Without a measured figure are terms of the peak RSS, what a run wants
// beforehand, and what checkpoints add to a record's share of the disk.
void expect_every_line(const RunPlan& plan, const nlohmann::json& summary) {
  const std::set<std::string> not_measured = {"memory.plan",
                                              "memory.activations",
                                              "memory.LibTorch and code",
                                              "memory.LibTorch, MPI and code",
                                              "untouched_bytes",
                                              "disk.needed_bytes",
                                              "disk.stop_bytes",
                                              "per_node.copy-on-write share",
                                              "per_node.checkpoint share"};
  const std::vector<VerifiedLine> lines = compare(plan, summary);
  auto line = lines.begin();
  for (const PlanSection& section : plan_sections(plan)) {
    for (const PlanLine& planned : section.lines) {
      ASSERT_NE(line, lines.end()) << planned.path();
      EXPECT_EQ(line->line.path(), planned.path());
      EXPECT_TRUE(line->measured || not_measured.contains(planned.path())) << planned.path();
      if (planned.object.empty() && planned.unit == PlanLine::Unit::kCount) {
        EXPECT_EQ(line->measured, planned.value) << planned.path();
      }
      ++line;
    }
  }
  EXPECT_EQ(line, lines.end());
}

class PlanMatrix : public testing::TestWithParam<Case> {
 protected:
  PlanMatrix() {
    write_small_mnist(data_.path() / "mnist", 400, 64);
    write_small_cifar10(data_.path() / "cifar", 8);
  }

  TrainOptions options() const {
    Arguments all = {"--quiet", "--eval-samples", "32", "--seed", "3", "--threads", "2"};
    for (const std::string& argument : GetParam().arguments) {
      all.push_back(argument == "MNIST"   ? "mnist:" + (data_.path() / "mnist").string()
                    : argument == "CIFAR" ? "cifar10:" + (data_.path() / "cifar").string()
                                          : argument);
    }
    return options_of(all);
  }

  TemporaryDirectory data_;
};

TEST_P(PlanMatrix, PredictsWhatARunTakes) {
  TrainOptions options = this->options();
  const unsigned ranks = GetParam().ranks;
  Machine machine = roomy_machine();
  machine.ranks = ranks;
  {
    DescribedRun describe(options, ranks);
    const RunDescription run = Planner(std::ref(describe), machine, std::nullopt).plan().run;
    const auto state = static_cast<double>(run.records() * run.store.layout.state_bytes());
    options.ram_bytes = std::max(run.least_ram_bytes + 65536, static_cast<std::uint64_t>(GetParam().share * state));
  }
  DescribedRun describe(options, ranks);
  const RunPlan plan = Planner(std::ref(describe), machine, std::nullopt).plan();
  ASSERT_TRUE(plan.fits());
  const ScratchFolder scratch(data_.path() / "scratch");
  const nlohmann::json summary = run_shoal_train(options, scratch.path(), ranks);
  const auto measured = [&](const char* key) { return summary[key].get<double>(); };

  // Where records are few and large, which of them is where is a matter of one.
  const double traffic = GetParam().cold ? 0.6 : 0.1;
  const double files = GetParam().cold ? 0.5 : 0.02;
  const auto record = static_cast<double>(plan.run.store.layout.record_bytes(Part::kPublic));
  const Traffic total = plan.residency.total * ranks;
  expect_close("disk", ranks * plan.disk.peak_bytes(), measured("store_file_bytes"), files, ranks * 2 * kMiB);
  // How many of the records that stay in RAM have been on disk before depends on the last evictions.
  expect_close("disk in use", ranks * plan.disk.end_bytes, measured("store_bytes"), std::max(0.1, files),
               ranks * (record + 65536));
  expect_close("read", total.bytes_read, measured("bytes_read"), traffic, ranks * 2 * record);
  expect_close("written", total.bytes_written, measured("bytes_written"), traffic, ranks * 2 * record);
  expect_close("from other ranks", (total.near_fetches + total.far_fetches) * record, measured("remote_bytes"), 0.1,
               ranks * 2 * record);
  if (!kSanitized) {
    expect_close("peak RSS", static_cast<double>(plan.peak_rss_bytes), measured("peak_rss_bytes"), 0.1, 32 * kMiB);
  }
  expect_every_line(plan, summary);
  EXPECT_EQ(plan.run.store.layout.state_bytes(), summary["state_bytes_per_node"].get<std::uint64_t>());
  if (plan.run.split) return;  // the summary has rank 0's, the plan the largest
  EXPECT_EQ(plan.run.least_ram_bytes, summary["least_ram_bytes"].get<std::uint64_t>());
  for (const MemoryLine& line : plan.ram) {
    // Plans are charged as they come; all others are as planned, to the byte.
    if (line.what == "plan" || !summary["memory"].contains(line.what)) continue;
    EXPECT_EQ(line.bytes, summary["memory"][line.what].get<std::uint64_t>()) << line.what;
  }
}

// Batches are large enough for the workers to be what a round waits for, as in most runs: then the store reads as far
// ahead as it may, which is what a rehearsal does.
const Arguments kLenet = {"--model", "lenet5",  "--data", "MNIST",   "--batch",
                          "32",      "--nodes", "240",    "--graph", "random-regular:4"};
const Arguments kMlp = {"--model", "mlp:784-64-10", "--data", "MNIST",   "--batch",
                        "64",      "--nodes",       "240",    "--graph", "ring-lattice:4"};
const Arguments kResnet = {"--model", "resnet18", "--data", "CIFAR",        "--batch",
                           "1",       "--graph",  "ring",   "--eval-nodes", "0"};
const Arguments kAdam = {"--optimizer", "adam", "--lr", "0.001"};
const Arguments kGossip = {"--algorithm", "gossip", "--gossip-every", "2-4", "--rounds", "10"};

Arguments rounds(const char* count) { return {"--rounds", count}; }

// Every model, optimizer and algorithm with little and with much RAM, alone and on two ranks; not all combinations.
std::vector<Case> cases() {
  const Arguments checkpoints = {"--checkpoint-every", "2"};
  const Arguments cold = {"--warm-bytes", "40MB"};
  const Arguments allreduce = {"--algorithm", "allreduce"};
  const Arguments some_act = {"--algorithm", "gossip", "--gossip-every", "1-2"};
  std::vector<Case> all = {
      {"Lenet5SgdDpsgdSixteenth", kLenet + rounds("3"), 1.0 / 16},
      {"Lenet5SgdDpsgdHalf", kLenet + rounds("3") + checkpoints, 0.5},
      {"Lenet5AdamDpsgdHalfTwoRanks", kLenet + kAdam + rounds("3") + checkpoints, 0.5, 2},
      {"Lenet5SgdDpsgdSixteenthTwoRanks", kLenet + rounds("3"), 1.0 / 16, 2},
      {"Lenet5SgdDpsgdAll", kLenet + rounds("3"), 4},
      {"Lenet5SgdDpsgdAllTwoRanks", kLenet + rounds("3"), 4, 2},
      {"Lenet5AdamGossipEighth", kLenet + kAdam + kGossip, 1.0 / 8},
      {"Lenet5SgdGossipHalfTwoRanks", kLenet + kGossip, 0.5, 2},
      {"Lenet5SgdAllreduce", kLenet + rounds("2") + allreduce, 0},
      {"Lenet5AdamAllreduceTwoRanks", kLenet + kAdam + rounds("2") + allreduce, 0, 2},
      {"Lenet5SgdDpsgdCold", kLenet + rounds("5") + cold, 0.25, 1, true},
      {"Lenet5SgdGossipColdCheckpoints", kLenet + kGossip + cold + checkpoints, 0.25, 1, true},
      {"MlpAdamDpsgdSixteenth", kMlp + kAdam + rounds("3"), 1.0 / 16},
      {"MlpAdamDpsgdSixteenthTwoRanks", kMlp + kAdam + rounds("3"), 1.0 / 16, 2},
      {"MlpSgdDpsgdHalf", kMlp + rounds("12") + Arguments{"--eval-every", "3"}, 0.75},
      {"MlpSgdGossipHalf", kMlp + kGossip, 0.75},
      {"MlpAdamGossipQuarterTwoRanks", kMlp + kAdam + kGossip, 0.25, 2},
      {"MlpSgdGossipAll", kMlp + kGossip, 4},
      {"MlpAdamAllreduce", kMlp + kAdam + rounds("2") + allreduce, 8},
  };
  if (kSanitized) return all;  // ResNet-18 would take minutes
  all.insert(all.end(),
             {
                 {"Resnet18SgdDpsgdSixteenth", kResnet + rounds("2") + Arguments{"--nodes", "6"}, 1.0 / 16},
                 {"Resnet18SgdDpsgdSixteenthTwoRanks", kResnet + rounds("2") + Arguments{"--nodes", "8"}, 1.0 / 16, 2},
                 {"Resnet18AdamGossipLeast", kResnet + kAdam + some_act + rounds("2") + Arguments{"--nodes", "3"}, 0},
                 {"Resnet18SgdAllreduce", kResnet + rounds("1") + Arguments{"--nodes", "3"} + allreduce, 0},
             });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Runs, PlanMatrix, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<Case>& test) { return test.param.name; });

}  // namespace
}  // namespace shoal
