// The promise: the state depends on the settings and the seed alone. Not on threads, RAM, devices or interruptions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "tests/e2e/program.h"
#include "tests/trainer/plain_population.h"
#include "trainer/train_options.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

struct Case {
  const char* name;
  Arguments arguments;
  bool streams = true;  // with the least RAM, rounds must read
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

// Every algorithm, optimizer and model at least once; the first one's state is 16 times the RAM it gets.
const std::vector<Case> kCases = {
    {"CtaAdamMlp",
     {"--model", "mlp:784-64-10", "--data", "MNIST", "--batch", "4", "--nodes", "370", "--graph", "ring-lattice:4",
      "--rounds", "2", "--optimizer", "adam", "--lr", "0.001", "--partition", "dirichlet:0.3"}},
    {"AtcMomentumLenet5",
     {"--model", "lenet5", "--data", "MNIST", "--batch", "8", "--nodes", "60", "--graph", "random-regular:4",
      "--rounds", "3", "--order", "atc", "--nesterov", "--init", "independent"}},
    {"AllreduceAdamMlp",
     {"--model", "mlp:784-16-10", "--data", "MNIST", "--batch", "8", "--nodes", "21", "--graph", "ring", "--rounds",
      "4", "--algorithm", "allreduce", "--optimizer", "adam", "--local-steps", "2"},
     false},
    {"GossipAdamLenet5", {"--model",        "lenet5",
                          "--data",         "MNIST",
                          "--batch",        "8",
                          "--nodes",        "48",
                          "--graph",        "watts-strogatz:4:0.2",
                          "--rounds",       "9",
                          "--algorithm",    "gossip",
                          "--gossip-every", "2-4",
                          "--optimizer",    "adamw",
                          "--lr",           "0.002",
                          "--local-steps",  "2",
                          "--partition",    "shards:2"}},
    {"LocalSgdMlp",
     {"--model", "mlp:784-32-10", "--data", "MNIST", "--batch", "8", "--nodes", "80", "--graph", "ring", "--rounds",
      "3", "--algorithm", "local", "--lr-schedule", "cosine", "--weight-decay", "0.001"}},
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
  if (GetParam() == 0) {
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
    if (test.streams && i < 2) {
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
     {"--model", "resnet18", "--data", "CIFAR", "--batch", "2", "--nodes", "2", "--graph", "complete", "--rounds", "2",
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

  // Until `rounds` rounds are in metrics.jsonl, or the program has ended; 0: until training begins.
  void wait_for_rounds(Program& program, std::uint64_t rounds) const {
    const auto reached = [&] {
      return rounds == 0 ? fs::exists(here_.path() / "pieces" / "config.toml") : rounds_seen() >= rounds;
    };
    while (program.running() && !reached()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
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
  for (bool done = false; !done;) {
    ASSERT_LT(kills, 100);
    Program program(arguments + how, here_.path());
    if (kills == 0) {
      // While it starts, reads data, creates nodes.
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 900));
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
    } else {
      done = true;
    }
  }
  EXPECT_GT(kills, 1);
  expect_the_same_as_in_one_go();
}

TEST_P(Interrupted, ByATerminationItSavesItsWorkAndGoesOnFromThere) {
  const Arguments arguments = interruptible("1000");
  const int signal = GetParam() % 2 == 0 ? SIGTERM : SIGINT;
  Program program(arguments, here_.path());
  wait_for_rounds(program, rounds_ > 2 ? 1 : 0);
  program.send(signal);
  const Outcome stopped = program.wait();
  ASSERT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_EQ(stopped.out, "");
  EXPECT_THAT(stopped.err, testing::HasSubstr("--resume"));
  EXPECT_EQ(lines_of(stopped.err).size(), 1U) << stopped.err;
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

}  // namespace
}  // namespace shoal
