#include "trainer/train_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "store/error.h"
#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

TrainCommand parse(const std::vector<std::string>& arguments, RanksHere ranks_here = {}) {
  std::vector<const char*> argv = {"shoal-train"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return parse_train_command(static_cast<int>(argv.size()), argv.data(), ranks_here);
}

// The message of the refusal, which is one line and a usage error.
std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse(arguments);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
    return error.what();
  }
  ADD_FAILURE() << "it was taken: " << testing::PrintToString(arguments);
  return "";
}

// Between them, another value than the default for every setting that is not an algorithm's own.
std::vector<std::vector<std::string>> everything_set(const std::string& out) {
  const std::vector<std::string> common = {"--nodes",
                                           "48",
                                           "--rounds",
                                           "7",
                                           "--seed",
                                           "18446744073709551615",
                                           "--graph",
                                           "ring",
                                           "--model",
                                           "mlp:784-16-10",
                                           "--init",
                                           "independent",
                                           "--data",
                                           "mnist:a \"b\"\\c",
                                           "--partition",
                                           "dirichlet:0.1",
                                           "--batch",
                                           "8",
                                           "--augment",
                                           "flip-crop",
                                           "--algorithm",
                                           "local",
                                           "--slow-rank",
                                           "1:2.5x",
                                           "--neighbour-reads",
                                           "one-sided",
                                           "--log-dir",
                                           "logs",
                                           "--local-steps",
                                           "3",
                                           "--lr",
                                           "1e-5",
                                           "--lr-schedule",
                                           "step:3:0.5",
                                           "--warmup-rounds",
                                           "2",
                                           "--weight-decay",
                                           "0.0001",
                                           "--intra-op",
                                           "2",
                                           "--device",
                                           "cuda:1",
                                           "--out",
                                           out,
                                           "--store",
                                           out + "/s",
                                           "--cold",
                                           out + "/c",
                                           "--store-io",
                                           "posix",
                                           "--warm-bytes",
                                           "1GiB",
                                           "--ram",
                                           "123456789",
                                           "--threads",
                                           "3",
                                           "--checkpoint-every",
                                           "2",
                                           "--eval-every",
                                           "4",
                                           "--eval-nodes",
                                           "5",
                                           "--eval-samples",
                                           "6",
                                           "--trace",
                                           "--strict",
                                           "--quiet",
                                           "--json"};
  std::vector<std::string> sgd = common;
  sgd.insert(sgd.end(), {"--momentum", "0.3", "--nesterov", "--async", "free", "--max-lag", "7"});
  std::vector<std::string> adam = common;
  adam.insert(adam.end(), {"--optimizer", "adamw", "--beta1", "0.8", "--beta2", "0.99", "--epsilon", "1e-7"});
  return {sgd, adam};
}

TEST(TrainOptions, DefaultsAreComplete) {
  const TrainOptions options = parse({}).options;
  EXPECT_EQ(options.nodes, 64U);
  EXPECT_EQ(options.store, std::filesystem::path("shoal-run/store"));
  EXPECT_GT(options.ram_bytes, 0U);
  EXPECT_GT(options.threads, 0U);
  EXPECT_EQ(options.eval_every, 2U);
}

TEST(TrainOptions, RanksDivideWhatTheyShare) {
  const TrainOptions alone = parse({}).options;
  const TrainOptions on_own_cores = parse({}, {.in_ram = 64, .on_cores = 1}).options;
  EXPECT_EQ(on_own_cores.threads, alone.threads);
  EXPECT_LT(on_own_cores.ram_bytes, alone.ram_bytes / 2);
  EXPECT_EQ(parse({}, {.in_ram = 1, .on_cores = 256}).options.threads, 1U);
}

TEST(TrainOptions, SeveralRanksAtTheirOwnPaceEvaluateAtTheEnd) {
  const std::vector<std::string> free = {"--rounds", "30", "--async", "free"};
  EXPECT_EQ(parse(free, {.in_all = 2}).options.eval_every, 30U);
  EXPECT_EQ(parse(free).options.eval_every, 3U) << "one alone runs in rounds";
  EXPECT_EQ(parse({"--rounds", "30"}, {.in_all = 2}).options.eval_every, 3U);
}

TEST(TrainOptions, EverySettingIsTakenFromItsFlag) {
  std::map<std::string, std::string> defaults;
  for (const char* optimizer : {"sgd", "adam"}) {
    for (const char* pace : {"rounds", "free"}) {
      const std::vector<std::string> arguments = {"--algorithm", "local", "--optimizer", optimizer, "--async", pace};
      for (const Setting& setting : settings(parse(arguments).options)) defaults.emplace(setting.key, setting.value);
    }
  }
  defaults.erase("algorithm");
  std::set<std::string> changed;
  for (const auto& arguments : everything_set("run")) {
    for (const Setting& setting : settings(parse(arguments).options)) {
      if (defaults[setting.key] != setting.value) changed.insert(setting.key);
    }
  }
  for (const auto& [key, value] : defaults) EXPECT_TRUE(changed.contains(key)) << key;
  for (const char* key : {"cold", "warm-bytes", "slow-rank", "log-dir"}) EXPECT_TRUE(changed.contains(key)) << key;
}

TEST(TrainOptions, WhatIsPrintedIsReadBackAndPrintedTheSame) {
  const TemporaryDirectory folder;
  const std::string file = (folder.path() / "run.toml").string();
  std::vector<std::vector<std::string>> all = everything_set("a \"run\" # 'of' many\\");
  all.emplace_back();
  for (auto arguments : all) {
    arguments.emplace_back("--print-config");
    const std::string printed = parse(arguments).print.value();
    std::ofstream(file) << printed;
    EXPECT_EQ(parse({"--config", file, "--print-config"}).print.value(), printed);
    // And not only the text: what the run would do.
    EXPECT_EQ(to_toml(settings(parse({"--config", file}).options)), printed);
  }
}

TEST(TrainOptions, AFlagWinsOverTheFile) {
  const TemporaryDirectory folder;
  const std::string file = (folder.path() / "run.toml").string();
  std::ofstream(file) << "# small\nnodes = 12\ngraph = \"ring\"\n";
  const TrainOptions options = parse({"--config", file, "--nodes", "20"}).options;
  EXPECT_EQ(options.nodes, 20U);
  EXPECT_EQ(options.graph, "ring");
}

TEST(TrainOptions, WhatBelongsToOneCallIsNotForTheFile) {
  const TemporaryDirectory folder;
  const std::string file = (folder.path() / "run.toml").string();
  for (const char* key : {"resume", "overwrite", "dry-run", "print-config"}) {
    std::ofstream(file) << key << " = true\n";
    refusal({"--config", file});
  }
}

TEST(TrainOptions, AFileThatIsNotUnderstoodIsRefused) {
  const TemporaryDirectory folder;
  const std::string file = (folder.path() / "run.toml").string();
  std::ofstream(file) << "nodes = 8\nnodse = 9\n";
  EXPECT_THAT(refusal({"--config", file}),
              testing::HasSubstr("run.toml, line 2: there is no setting nodse; the nearest is nodes"));
  std::ofstream(file) << "[run]\nnodes = 8\n";
  EXPECT_THAT(refusal({"--config", file}), testing::HasSubstr("run"));
  std::ofstream(file) << "# few\nnodes = \"many\"\n";
  EXPECT_THAT(refusal({"--config", file}), testing::HasSubstr("run.toml, line 2: nodes is a text"));
  EXPECT_THAT(refusal({"--config", (folder.path() / "none.toml").string()}), testing::HasSubstr("none.toml"));
}

TEST(TrainOptions, NoRamIsTooLittleRamAndNotTheDefault) { EXPECT_EQ(parse({"--ram", "0"}).options.ram_bytes, 0U); }

TEST(TrainOptions, AnEdgeListBringsItsOwnNumberOfNodes) {
  EXPECT_EQ(parse({"--graph", "file:edges.txt"}).options.nodes, 0U);
  EXPECT_EQ(parse({"--graph", "file:edges.txt", "--nodes", "9"}).options.nodes, 9U);
}

TEST(TrainOptions, HelpAndVersionAreTextsAndNothingElseHappens) {
  const std::string help = parse({"--help"}).print.value();
  for (const char* word : {"--checkpoint-every", "dpsgd", "gossip", "random-regular:D", "dirichlet:A", "resnet18",
                           "synthetic-mnist", "report.html", "metrics.jsonl", "nodes.csv", "summary.json",
                           "config.toml", "node_names.csv", "trace.json", "stores.json", "Exit code"}) {
    EXPECT_THAT(help, testing::HasSubstr(word));
  }
  EXPECT_THAT(parse({"--version"}).print.value(), testing::StartsWith("shoal-train "));
}

TEST(TrainOptions, AnUnknownFlagIsRefusedWithTheNearestOne) {
  EXPECT_THAT(refusal({"--nodse", "8"}), testing::HasSubstr("--nodse; the nearest is --nodes"));
  refusal({"8"});
}

TEST(TrainOptions, WhatTheChosenOptimizerOrPaceWouldIgnoreIsRefused) {
  EXPECT_THAT(refusal({"--optimizer", "adam", "--nesterov"}),
              testing::HasSubstr("--nesterov: it is for --optimizer sgd, and this run's is adam"));
  EXPECT_THAT(refusal({"--optimizer", "adamw", "--momentum", "0.5"}), testing::HasSubstr("--optimizer sgd"));
  EXPECT_THAT(refusal({"--beta1", "0.5"}), testing::HasSubstr("--optimizer adam or adamw, and this run's is sgd"));
  EXPECT_THAT(refusal({"--max-lag", "2"}), testing::HasSubstr("--async free"));
}

struct BadValue {
  std::vector<std::string> arguments;
  std::string named;  // what the message speaks of
};

TEST(TrainOptions, AWrongValueIsRefusedInOneLineThatNamesTheFlag) {
  const std::vector<BadValue> table = {
      {{"--nodes", "0"}, "--nodes"},
      {{"--nodes", "-3"}, "--nodes"},
      {{"--nodes", "5000000000"}, "--nodes 5000000000: it must be a whole number from 1 to"},
      {{"--nodes", "many"}, "--nodes"},
      {{"--nodes"}, "--nodes"},
      {{"--nodes", "8", "--nodes", "9"}, "--nodes is given 2 times"},
      {{"--rounds", "few"}, "--rounds"},
      {{"--rounds", "-1"}, "--rounds"},
      {{"--seed", "x"}, "--seed"},
      {{"--seed", "-1"}, "--seed"},
      {{"--seed", "99999999999999999999"}, "--seed"},
      {{"--mixing", "stirring"}, "--mixing stirring: choose from metropolis"},
      {{"--init", "random"}, "independent"},
      {{"--batch", "0"}, "--batch"},
      {{"--batch", "65537"}, "--batch"},
      {{"--augment", "rotate"}, "flip-crop"},
      {{"--algorithm", "adpsgd"}, "--algorithm adpsgd: choose from allreduce, dpsgd"},
      {{"--order", "abc"}, "cta"},
      {{"--algorithm", "gossip", "--gossip-every", "0"}, "--gossip-every 0: ticks"},
      {{"--gossip-every", "5-3"}, "--gossip-every"},
      {{"--gossip-every", "3-"}, "--gossip-every"},
      {{"--gossip-every", ""}, "--gossip-every"},
      {{"--gossip-own", "1.5"}, "--gossip-own"},
      {{"--gossip-own", "nan"}, "--gossip-own"},
      {{"--gossip-buffer", "0"}, "--gossip-buffer"},
      {{"--average-buffers=maybe"}, "--average-buffers"},
      {{"--local-steps", "-1"}, "--local-steps"},
      {{"--local-steps", "10001"}, "--local-steps"},
      {{"--optimizer", "lion"}, "--optimizer lion: choose from sgd, adam, adamw"},
      {{"--lr", "fast"}, "--lr"},
      {{"--lr", "-0.1"}, "--lr"},
      {{"--lr", "nan"}, "--lr"},
      {{"--lr", "inf"}, "--lr"},
      {{"--lr-schedule", "linear"}, "--lr-schedule linear: "},
      {{"--lr-schedule", "step:0:0.1"}, "step:EVERY:FACTOR"},
      {{"--warmup-rounds", "x"}, "--warmup-rounds"},
      {{"--warmup-rounds", "-1"}, "--warmup-rounds"},
      {{"--momentum", "1"}, "--momentum"},
      {{"--momentum", "nan"}, "--momentum"},
      {{"--nesterov", "--momentum", "0"}, "--nesterov"},
      {{"--weight-decay", "-1"}, "--weight-decay"},
      {{"--weight-decay", "inf"}, "--weight-decay"},
      {{"--beta1", "1"}, "--beta1"},
      {{"--beta2", "-0.1"}, "--beta2"},
      {{"--epsilon", "0"}, "--epsilon"},
      {{"--epsilon", "inf"}, "--epsilon"},
      {{"--intra-op", "0"}, "--intra-op"},
      {{"--async", "sometimes"}, "--async sometimes: choose from rounds, free"},
      {{"--async", ""}, "--async"},
      {{"--async", "free", "--max-lag", "0"}, "--max-lag 0: it must be a whole number from 1"},
      {{"--neighbour-reads", "two-sided"}, "--neighbour-reads two-sided: choose from auto, one-sided"},
      {{"--slow-rank", ""}, "--slow-rank"},
      {{"--slow-rank", "2"}, "--slow-rank 2: a rank and how many times as long its steps take, as 2:10x"},
      {{"--slow-rank", "2:"}, "--slow-rank 2:: a rank"},
      {{"--slow-rank", "2:10"}, "--slow-rank"},
      {{"--slow-rank", "2:x"}, "--slow-rank"},
      {{"--slow-rank", ":10x"}, "--slow-rank"},
      {{"--slow-rank", "-1:10x"}, "--slow-rank"},
      {{"--slow-rank", "last:10x"}, "--slow-rank"},
      {{"--slow-rank", "2:10xx"}, "--slow-rank"},
      {{"--slow-rank", "2:0.5x"}, "--slow-rank"},
      {{"--slow-rank", "2:nanx"}, "--slow-rank"},
      {{"--slow-rank", "2:infx"}, "--slow-rank"},
      {{"--out", ""}, "--out"},
      {{"--store-io", "fast"}, "mapped"},
      {{"--warm-bytes", "much"}, "--warm-bytes"},
      {{"--ram", "much"}, "--ram"},
      {{"--ram", "-5"}, "--ram"},
      {{"--ram", "4GiBs"}, "--ram"},
      {{"--threads", "257"}, "--threads"},
      {{"--threads", "0"}, "--threads"},
      {{"--threads", "-1"}, "--threads"},
      {{"--checkpoint-every", "x"}, "--checkpoint-every"},
      {{"--checkpoint-every", "-1"}, "--checkpoint-every"},
      {{"--resume", "--overwrite"}, "--overwrite"},
      {{"--eval-every", "x"}, "--eval-every"},
      {{"--eval-every", "0"}, "--eval-every"},
      {{"--eval-every", "-1"}, "--eval-every"},
      {{"--eval-nodes", "-1"}, "--eval-nodes"},
      {{"--eval-samples", "0"}, "--eval-samples"},
      {{"--trace=perhaps"}, "--trace"},
      {{"--strict=perhaps"}, "--strict"},
      {{"--strict=7"}, "--strict"},
      {{"--quiet=perhaps"}, "--quiet"},
      {{"--json=perhaps"}, "--json"},
      {{"--nesterov=maybe"}, "--nesterov maybe: it must be true or false"},
      {{"--nesterov", "maybe"}, "'maybe' is no flag"},
      {{"--resume=3x"}, "--resume 3x: it must be true or false"},
      {{"--overwrite=no-idea"}, "--overwrite no-idea: it must be true or false"},
      {{"--dry-run=True"}, "--dry-run True: it must be true or false"},
      {{"--print-config=1"}, "--print-config 1: it must be true or false"},
      {{"--resume=maybe", "--resume"}, "--resume is given 2 times"},
  };
  for (const BadValue& bad : table) {
    SCOPED_TRACE(testing::PrintToString(bad.arguments));
    EXPECT_THAT(refusal(bad.arguments), testing::HasSubstr(bad.named));
  }
}

}  // namespace
}  // namespace shoal
