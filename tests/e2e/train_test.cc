// The promise: the state depends on the settings and the seed alone. Not on threads, RAM, devices or interruptions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "bench/memory_cgroup.h"
#include "tests/e2e/program.h"
#include "tests/trainer/plain_population.h"
#include "trainer/describe.h"
#include "trainer/train_options.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

// How little RAM a case gets: a sixteenth of its state, or the least there is, which may be enough for everything.
enum class Little { kSixteenth, kLeast, kLeastIsEnough };

struct Case {
  const char* name;
  Arguments arguments;
  Little little = Little::kLeast;
};

class TrainTest : public testing::Test {
 protected:
  TrainTest() {
    write_small_mnist(data_.path() / "mnist", 400, 64);
    write_small_cifar10(data_.path() / "cifar", 8);
  }

  // What all cases have in common.
  Arguments common(const Arguments& arguments) const {
    Arguments all = {"--quiet", "--eval-samples", "32", "--seed", "3"};
    for (const std::string& argument : arguments) {
      if (argument == "MNIST" || argument == "CIFAR") {
        all.push_back(argument == "MNIST" ? "mnist:" + (data_.path() / "mnist").string()
                                          : "cifar10:" + (data_.path() / "cifar").string());
      } else {
        all.push_back(argument);
      }
    }
    return all;
  }

  nlohmann::json summary(const Arguments& arguments, const fs::path& out) {
    return run_to_summary(arguments, here_.path(), out);
  }

  TemporaryDirectory data_;
  TemporaryDirectory here_;
};

const Arguments kPlenty = {"--ram", "2GiB"};

std::string mode_of(const nlohmann::json& summary, const std::string& what) {
  for (const auto& mode : summary["modes"]) {
    if (mode["what"] == what) return mode["actual"];
  }
  return "(not reported)";
}

// Every algorithm, optimizer and model at least once.
const std::vector<Case> kCases = {
    {"CtaAdamMlp",
     {"--model", "mlp:784-64-10", "--data", "MNIST", "--batch", "4", "--nodes", "370", "--graph", "ring-lattice:4",
      "--rounds", "2", "--optimizer", "adam", "--lr", "0.001", "--partition", "dirichlet:0.3"},
     Little::kSixteenth},
    {"AtcMomentumLenet5",
     {"--model", "lenet5", "--data", "MNIST", "--batch", "8", "--nodes", "460", "--graph", "random-regular:4",
      "--rounds", "3", "--order", "atc", "--nesterov", "--init", "independent"},
     Little::kSixteenth},
    {"AllreduceAdamMlp",
     {"--model", "mlp:784-16-10", "--data", "MNIST", "--batch", "8", "--nodes", "21", "--graph", "ring", "--rounds",
      "4", "--algorithm", "allreduce", "--optimizer", "adam", "--local-steps", "2"},
     Little::kLeastIsEnough},
    {"GossipAdamLenet5",
     {"--model",        "lenet5",
      "--data",         "MNIST",
      "--batch",        "8",
      "--nodes",        "260",
      "--graph",        "watts-strogatz:4:0.2",
      "--rounds",       "9",
      "--algorithm",    "gossip",
      "--gossip-every", "2-4",
      "--optimizer",    "adamw",
      "--lr",           "0.002",
      "--local-steps",  "2",
      "--partition",    "shards:2"},
     Little::kSixteenth},
    {"LocalSgdMlp",
     {"--model", "mlp:784-64-10", "--data", "MNIST", "--batch", "4", "--nodes", "520", "--graph", "ring", "--rounds",
      "3", "--algorithm", "local", "--lr-schedule", "cosine", "--weight-decay", "0.001"},
     Little::kSixteenth},
    {"CtaLocalStepsQuadratic",
     {"--model", "quadratic:10000:1:0.1", "--nodes", "60", "--graph", "barabasi-albert:3", "--rounds", "4",
      "--local-steps", "3", "--init", "independent"}},
    {"AtcResnet18",
     {"--model", "resnet18", "--data", "CIFAR", "--batch", "2", "--nodes", "3", "--graph", "ring", "--rounds", "2",
      "--order", "atc", "--average-buffers", "--augment", "flip-crop", "--eval-nodes", "0"}},
};

class SameBits : public TrainTest, public testing::WithParamInterface<std::size_t> {};

TEST_P(SameBits, ForAnyThreadsRamAndDeviceAndAsTheDefinitionSays) {
  const Case& test = kCases[GetParam()];
  const Arguments arguments = common(test.arguments);
  const auto reference = summary(arguments + kPlenty + Arguments{"--threads", "2"}, "plenty");
  ASSERT_TRUE(reference.is_object());
  const std::string hash = reference["state_hash"];
  EXPECT_EQ(reference["bytes_read"], 0) << "there was RAM for all of it";

  std::uint64_t ram = least_ram(arguments + Arguments{"--threads", "2"}, here_.path());
  if (test.little == Little::kSixteenth) {
    const std::uint64_t sixteenth =
        reference["nodes"].get<std::uint64_t>() * reference["state_bytes_per_node"].get<std::uint64_t>() / 16;
    ASSERT_GE(sixteenth, ram);
    ram = sixteenth;
  }
  std::vector<Arguments> ways = {{"--threads", "1", "--store-io", "posix"}, {"--threads", "2", "--store-io", "direct"}};
  if (GetParam() % 2 == 0) {
    ways.push_back({"--threads", "2", "--store-io", "mapped"});
  } else {
    ways.push_back({"--threads", "2", "--warm-bytes", "1MiB", "--checkpoint-every", "1"});  // most of it in RocksDB
  }
  for (std::size_t i = 0; i < ways.size(); ++i) {
    SCOPED_TRACE(testing::PrintToString(ways[i]));
    const fs::path out = "small-" + std::to_string(i);
    const auto small = summary(arguments + Arguments{"--ram", std::to_string(ram)} + ways[i], out);
    ASSERT_TRUE(small.is_object());
    EXPECT_EQ(small["state_hash"], hash);
    if (i == 1) {
      EXPECT_EQ(mode_of(small, "slab I/O"), "io_uring") << "what this way is meant to try was not there";
    }
    if (test.little != Little::kLeastIsEnough && i < 2) {
      EXPECT_GT(small["bytes_read"], 0) << "it was meant to be too little RAM";
    }
    EXPECT_EQ(small["loss"], reference["loss"]);
    EXPECT_EQ(small["consensus_distance"], reference["consensus_distance"]);
    EXPECT_EQ(small["accuracy"], reference["accuracy"]);
    EXPECT_EQ(read_text(here_.path() / out / "nodes.csv"), read_text(here_.path() / "plenty" / "nodes.csv"));
    fs::remove_all(here_.path() / out);
  }

  std::vector<const char*> argv = {"shoal-train"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  const TrainOptions options = parse_train_command(static_cast<int>(argv.size()), argv.data()).options;
  PlainPopulation plain(options);
  plain.run(options.rounds);
  EXPECT_EQ(plain.state_hash(), hash);
  EXPECT_NEAR(plain.consensus_distance(), reference["consensus_distance"].get<double>(),
              1e-3 * plain.consensus_distance() + 1e-6);
}

INSTANTIATE_TEST_SUITE_P(All, SameBits, testing::Range<std::size_t>(0, kCases.size()),
                         [](const auto& test) { return kCases[test.param].name; });

// Rounds that are long enough to be hit, and many.
const std::vector<Case> kLongCases = {
    {"Cta",
     {"--model", "mlp:784-32-10", "--data", "MNIST", "--batch", "8", "--nodes", "40", "--graph", "random-regular:4",
      "--rounds", "24", "--optimizer", "adam", "--lr", "0.001", "--eval-every", "5"}},
    {"Atc",
     {"--model", "lenet5", "--data", "MNIST", "--batch", "8", "--nodes", "40", "--graph", "torus", "--rounds", "20",
      "--order", "atc"}},
    {"Gossip",
     {"--model", "mlp:784-32-10", "--data", "MNIST", "--batch", "8", "--nodes", "60", "--graph", "random-regular:4",
      "--rounds", "30", "--algorithm", "gossip", "--gossip-every", "2-4", "--lr-schedule", "step:10:0.5"}},
    {"Allreduce",
     {"--model", "mlp:784-16-10", "--data", "MNIST", "--batch", "8", "--nodes", "150", "--graph", "ring", "--rounds",
      "20", "--algorithm", "allreduce", "--optimizer", "adam", "--lr", "0.001"}},
    {"Local",
     {"--model", "mlp:784-16-10", "--data", "MNIST", "--batch", "8", "--nodes", "80", "--graph", "ring", "--rounds",
      "20", "--algorithm", "local"}},
    {"Resnet18",
     {"--model", "resnet18", "--data", "CIFAR", "--batch", "2", "--nodes", "2", "--graph", "complete", "--rounds", "3",
      "--eval-nodes", "0"}},
};

class Interrupted : public TrainTest, public testing::WithParamInterface<std::size_t> {
 protected:
  static constexpr int kKills = 5;

  Interrupted() : arguments_(common(kLongCases[GetParam()].arguments) + Arguments{"--threads", "2"}) {
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      if (arguments_[i] == "--rounds") rounds_ = std::stoull(arguments_[i + 1]);
    }
    ram_ = std::to_string(least_ram(arguments_, here_.path()));
    summary(arguments_ + kPlenty, "whole");
  }

  Arguments interruptible(const std::string& every) const {
    return arguments_ + Arguments{"--ram", ram_, "--checkpoint-every", every, "--out", "pieces"};
  }

  // Until `rounds` rounds are in metrics.jsonl, or the program has ended.
  void wait_for_rounds(Program& program, std::uint64_t rounds) const {
    while (program.running() && rounds_seen() < rounds) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  std::uint64_t rounds_seen() const {
    const std::string text = read_text(here_.path() / "pieces" / "metrics.jsonl");
    return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  }

  void expect_the_same_as_in_one_go() const { expect_same_results(here_.path() / "pieces", here_.path() / "whole"); }

  Arguments arguments_;
  std::uint64_t rounds_ = 0;
  std::string ram_;
};

TEST_P(Interrupted, ByKillsAtAnyMomentItEndsAsInOneGo) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  const Arguments arguments = interruptible(GetParam() % 2 == 0 ? "1" : "2");
  int kills = 0;
  std::uint64_t target = 0;
  Arguments how;
  auto first_wait = random() % 900;
  for (bool done = false; !done;) {
    ASSERT_LT(kills, 100);
    Program program(arguments + how, here_.path());
    if (kills == 0) {
      // While it starts, reads data, creates nodes.
      std::this_thread::sleep_for(std::chrono::milliseconds(first_wait));
      program.send(SIGKILL);
    } else if (target < rounds_ && kills < kKills) {
      target = std::max(target, rounds_seen()) + 1 + random() % 3;
      wait_for_rounds(program, target);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
      program.send(SIGKILL);
    }
    const Outcome outcome = program.wait();
    if (outcome.signal == SIGKILL) {
      ++kills;
      how = {"--resume"};
    } else if (outcome.code != 0) {
      EXPECT_THAT(outcome.err, testing::AnyOf(testing::HasSubstr("there is no run in"),
                                              testing::HasSubstr("before its first checkpoint")));
      ASSERT_EQ(how, Arguments{"--resume"}) << outcome.err;
      how = {"--overwrite"};
    } else if (kills == 0) {
      // It was quicker.
      first_wait /= 2;
      how = {"--overwrite"};
    } else {
      done = true;
    }
  }
  expect_the_same_as_in_one_go();
}

TEST_P(Interrupted, BetweenItsLastCheckpointAndItsResultsItWritesThose) {
  const Arguments arguments = interruptible("2");
  ASSERT_EQ(run_program(arguments, here_.path()).code, 0);
  for (const char* file : {"nodes.csv", "summary.json", "report.html"}) fs::remove(here_.path() / "pieces" / file);
  const Outcome resumed = run_program(arguments + Arguments{"--resume"}, here_.path());
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(fs::exists(here_.path() / "pieces" / "report.html"));
  expect_the_same_as_in_one_go();
}

TEST_P(Interrupted, ByATerminationItSavesItsWorkAndGoesOnFromThere) {
  const Arguments arguments = interruptible("1000");
  const int signal = GetParam() % 2 == 0 ? SIGTERM : SIGINT;
  // Slow enough to be met after its first round and before its last.
  Program program(arguments + Arguments{"--slow-rank", "0:20x"}, here_.path());
  wait_for_rounds(program, 1);
  program.send(signal);
  const Outcome stopped = program.wait();
  ASSERT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_EQ(stopped.out, "");
  EXPECT_THAT(stopped.err, testing::HasSubstr("--resume"));
  EXPECT_FALSE(fs::exists(here_.path() / "pieces" / "summary.json"));
  const Outcome resumed = run_program(arguments + Arguments{"--resume"}, here_.path());
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_GT(summary_of(here_.path() / "pieces")["resumed_at_round"], 0);
  expect_the_same_as_in_one_go();
}

INSTANTIATE_TEST_SUITE_P(All, Interrupted, testing::Range<std::size_t>(0, kLongCases.size()),
                         [](const auto& test) { return kLongCases[test.param].name; });

class Resumed : public TrainTest {
 protected:
  const Arguments arguments_ = {"--quiet", "--model", "quadratic:5000:1:0.1", "--nodes", "40",
                                "--graph", "torus",   "--checkpoint-every",   "2",       "--seed",
                                "3",       "--init",  "independent"};
};

TEST_F(Resumed, WithMoreRoundsAndOtherRamThreadsAndDevice) {
  const auto whole = summary(arguments_ + kPlenty + Arguments{"--rounds", "9"}, "whole");
  ASSERT_EQ(run_program(arguments_ + kPlenty + Arguments{"--rounds", "3", "--out", "pieces"}, here_.path()).code, 0);
  const std::string ram = std::to_string(least_ram(arguments_ + Arguments{"--threads", "2"}, here_.path()));
  for (const Arguments& change : {Arguments{"--rounds", "4", "--threads", "1", "--ram", "1GiB"},
                                  Arguments{"--rounds", "7", "--threads", "2", "--store-io", "posix", "--ram", ram},
                                  Arguments{"--rounds", "9", "--threads", "2", "--store-io", "mapped", "--ram", ram}}) {
    const Outcome outcome = run_program(arguments_ + change + Arguments{"--out", "pieces", "--resume"}, here_.path());
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  const auto pieces = summary_of(here_.path() / "pieces");
  EXPECT_EQ(pieces["state_hash"], whole["state_hash"]);
  EXPECT_EQ(pieces["resumed_at_round"], 7);
  EXPECT_EQ(metrics_of(here_.path() / "pieces").size(), 9U);
}

TEST_F(Resumed, WhenItIsCompleteItSaysTheSameAgain) {
  const Arguments arguments = arguments_ + kPlenty + Arguments{"--rounds", "4"};
  const auto first = summary(arguments, "run");
  const auto metrics = metrics_of(here_.path() / "run");
  const auto second = summary(arguments + Arguments{"--resume"}, "run");
  for (const char* key : {"state_hash", "loss", "consensus_distance", "accuracy"}) {
    EXPECT_EQ(second[key], first[key]) << key;
  }
  EXPECT_EQ(metrics_of(here_.path() / "run"), metrics);
}

TEST_F(Resumed, IntoTheSameResultOnAFileSystemInMemory) {
  const TemporaryDirectory memory(fast_directory());
  const std::string store = (memory.path() / "store").string();
  const auto whole = summary(arguments_ + kPlenty + Arguments{"--rounds", "6"}, "whole");
  const Arguments arguments = arguments_ + kPlenty + Arguments{"--store", store};
  ASSERT_EQ(run_program(arguments + Arguments{"--rounds", "3", "--out", "pieces"}, here_.path()).code, 0);
  const auto pieces = summary(arguments + Arguments{"--rounds", "6", "--resume"}, "pieces");
  EXPECT_EQ(pieces["state_hash"], whole["state_hash"]);
}

class Learning : public TrainTest {};

TEST_F(Learning, NodesLearnWhatTheImagesShow) {
  const auto result = summary(common({"--model", "mlp:784-16-10", "--data", "MNIST", "--batch", "16", "--nodes", "10",
                                      "--graph", "ring", "--rounds", "25", "--lr", "0.1", "--ram", "1GiB"}),
                              "run");
  ASSERT_TRUE(result.is_object());
  EXPECT_GT(result["accuracy_mean"], 0.8);
  EXPECT_GT(result["accuracy_mean_model"], 0.8);
  const auto metrics = metrics_of(here_.path() / "run");
  EXPECT_LT(metrics.back()["loss"], 0.5 * metrics.front()["loss"].get<double>());
}

TEST_F(Learning, OfAModelThatRanAwayIsToldAlsoWithoutProgress) {
  const Outcome outcome = run_program({"--quiet", "--model", "quadratic:20:1e15", "--nodes", "4", "--graph", "ring",
                                       "--algorithm", "allreduce", "--rounds", "2", "--ram", "128MiB", "--out", "run"},
                                      here_.path());
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, testing::HasSubstr("round 0: node 0: its gradient"));
  EXPECT_EQ(lines_of(outcome.err).size(), 1U) << outcome.err;
  EXPECT_THAT(summary_of(here_.path() / "run")["warning"].get<std::string>(), testing::HasSubstr("round 0"));
}

class SyntheticMnist : public TrainTest {};

// Hard enough that there is something to watch, easy enough that a demonstration gets there.
TEST_F(SyntheticMnist, IsLearnedByLenet5AndNotAtOnce) {
  const auto result =
      summary({"--quiet", "--nodes", "8", "--graph", "ring", "--data", "synthetic-mnist", "--rounds", "300",
               "--eval-every", "10", "--eval-nodes", "8", "--eval-samples", "500", "--ram", "1GiB"},
              "run");
  ASSERT_TRUE(result.is_object());
  const auto accuracy_after = [metrics = metrics_of(here_.path() / "run")](std::size_t rounds) {
    return metrics.at(rounds - 1)["accuracy"]["mean"].get<double>();
  };
  // 0.10 to 0.16 and 0.92 to 0.96 with six seeds.
  EXPECT_LT(accuracy_after(10), 0.4);
  EXPECT_GT(accuracy_after(300), 0.85);
}

class RealMnist : public TrainTest {};

TEST_F(RealMnist, IsLearnedByThirtyTwoNodesToNinetySevenPercent) {
  const char* const folder = std::getenv("SHOAL_MNIST_DIR");
  if (folder == nullptr) GTEST_SKIP() << "NOT TESTED: SHOAL_MNIST_DIR names no folder with MNIST's four files";
  const auto result = summary({"--quiet", "--nodes", "32", "--graph", "random-regular:8", "--data",
                               std::string("mnist:") + folder, "--rounds", "300", "--algorithm", "dpsgd",
                               "--eval-nodes", "32", "--eval-samples", "10000", "--eval-every", "300", "--ram", "1GiB"},
                              "run");
  ASSERT_TRUE(result.is_object());
  EXPECT_GE(result["accuracy_mean"], 0.97);
}

class Memory : public TrainTest {};

// 900 nodes hold 429 MiB of state. What LibTorch and the code take beside --ram is about 160 MiB, whatever the nodes.
TEST_F(Memory, StaysWithinRamAndAConstant) {
  const Arguments arguments = common({"--model", "lenet5", "--data", "MNIST", "--batch", "4", "--nodes", "900",
                                      "--graph", "random-regular:4", "--rounds", "1"});
  const std::uint64_t ram = least_ram(arguments, here_.path()) + (8 << 20);
  const auto result = summary(arguments + Arguments{"--ram", std::to_string(ram)}, "run");
  ASSERT_TRUE(result.is_object());
  EXPECT_GT(result["bytes_read"], 0);
  EXPECT_LT(result["peak_rss_bytes"].get<std::uint64_t>(), ram + (256 << 20));
}

// The same constant; page cache counts as well, and who takes more is killed.
TEST_F(Memory, LastsInACgroupOfRamAndAConstant) {
  const Arguments arguments = common({"--model", "lenet5", "--data", "MNIST", "--batch", "4", "--nodes", "900",
                                      "--graph", "random-regular:4", "--rounds", "1", "--checkpoint-every", "1"});
  const std::uint64_t ram = least_ram(arguments, here_.path()) + (8 << 20);
  std::string reason;
  const auto cgroup = bench::MemoryCgroup::create(ram + (256 << 20), reason);
  if (!cgroup) GTEST_SKIP() << "NOT TESTED: a memory cgroup: " << reason;
  const Arguments inside = {"sh", "-c", "echo $$ > " + (cgroup->path() / "cgroup.procs").string() + " && exec \"$@\"",
                            "sh"};
  const auto limited =
      run_to_summary(arguments + Arguments{"--ram", std::to_string(ram)}, here_.path(), "limited", inside);
  ASSERT_TRUE(limited.is_object());
  EXPECT_GT(limited["bytes_read"], 0);
  EXPECT_EQ(limited["state_hash"], summary(arguments + kPlenty, "free")["state_hash"]);
}

TEST_F(Memory, DoesNotGrowWithRamThatIsOfNoUse) {
  const Arguments arguments = {"--quiet", "--model", "quadratic", "--nodes", "8", "--graph", "ring", "--rounds", "2"};
  const auto little = summary(arguments + Arguments{"--ram", "64MiB"}, "little");
  const auto much = summary(arguments + Arguments{"--ram", "1000GiB"}, "much");
  ASSERT_TRUE(much.is_object());
  EXPECT_EQ(much["memory"], little["memory"]);
  EXPECT_LT(much["peak_rss_bytes"].get<std::uint64_t>(), little["peak_rss_bytes"].get<std::uint64_t>() + (16 << 20));
}

// What a plan names as enough is enough, whatever RAM it was asked with, on one rank and on two.
TEST_F(Memory, IsEnoughForEverythingFromTheRamOnThatThePlanNames) {
  const std::vector<std::pair<Arguments, unsigned>> runs = {
      {{"--graph", "random-regular:4"}, 1},
      {{"--graph", "ring", "--algorithm", "gossip", "--gossip-every", "1-2"}, 1},
      {{"--graph", "random-regular:4"}, 2},
      {{"--graph", "barabasi-albert:4"}, 2}};
  for (const auto& [how, ranks] : runs) {
    SCOPED_TRACE(testing::PrintToString(how) + " on ranks: " + std::to_string(ranks));
    const Arguments arguments =
        how + Arguments{"--quiet", "--model", "quadratic:20000", "--nodes", "120", "--rounds", "3", "--threads", "2"};
    std::vector<const char*> argv = {"shoal-train"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    DescribedRun describe(parse_train_command(static_cast<int>(argv.size()), argv.data()).options, ranks, 1);
    std::uint64_t enough = 0;
    std::vector<std::uint64_t> nodes;
    for (unsigned rank = 0; rank < ranks; ++rank) {
      RunChange change;
      change.rank = rank;
      change.ram_bytes = 1;
      const std::uint64_t named = describe(change).resident_ram_bytes;
      for (const std::uint64_t other : {named - 1, named, 2 * named, std::uint64_t{1} << 40}) {
        change.ram_bytes = other;
        EXPECT_EQ(describe(change).resident_ram_bytes, named);
      }
      enough = std::max(enough, named);
      nodes.push_back(describe(change).records());
    }
    const auto result = run_to_summary(arguments + Arguments{"--ram", std::to_string(enough), "--overwrite"},
                                       here_.path(), "run", on_ranks(ranks));
    ASSERT_TRUE(result.is_object());
    EXPECT_EQ(result["bytes_read"], 0);
    EXPECT_EQ(result["bytes_written"], 0);
    for (unsigned rank = 0; ranks > 1 && rank < ranks; ++rank) {
      EXPECT_EQ(result["per_rank"][rank]["nodes"], nodes[rank]) << "the plan has the run's split";
    }
    if (how.size() > 2 || ranks > 1) continue;  // these must reckon with the worst
    const std::uint64_t less = enough - enough / 8;
    const auto streamed = run_to_summary(arguments + Arguments{"--ram", std::to_string(less), "--overwrite"},
                                         here_.path(), "run", on_ranks(ranks));
    EXPECT_GT(streamed["bytes_written"], 0) << "it says far too much";
  }
}

}  // namespace
}  // namespace shoal
