#include "trainer/train_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "store/error.h"
#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

TrainCommand parse(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv = {"shoal-train"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return parse_train_command(static_cast<int>(argv.size()), argv.data());
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

// A value for every setting that is not its default.
std::vector<std::string> everything_set(const std::string& out) {
  return {"--nodes",
          "48",
          "--rounds",
          "7",
          "--seed",
          "18446744073709551615",
          "--graph",
          "ring",
          "--mixing",
          "uniform",
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
          "gossip",
          "--order",
          "atc",
          "--gossip-every",
          "3-5",
          "--gossip-own",
          "0.1",
          "--gossip-buffer",
          "2",
          "--average-buffers",
          "--async",
          "free",
          "--max-lag",
          "7",
          "--slow-rank",
          "1:2.5x",
          "--neighbour-reads",
          "one-sided",
          "--log-dir",
          "logs",
          "--local-steps",
          "3",
          "--optimizer",
          "adamw",
          "--lr",
          "1e-5",
          "--lr-schedule",
          "step:3:0.5",
          "--warmup-rounds",
          "2",
          "--momentum",
          "0.3",
          "--nesterov",
          "--weight-decay",
          "0.0001",
          "--beta1",
          "0.8",
          "--beta2",
          "0.99",
          "--epsilon",
          "1e-7",
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
          "--strict"};
}

TEST(TrainOptions, DefaultsAreComplete) {
  const TrainOptions options = parse({}).options;
  EXPECT_EQ(options.nodes, 64U);
  EXPECT_EQ(options.store, std::filesystem::path("shoal-run/store"));
  EXPECT_GT(options.ram_bytes, 0U);
  EXPECT_GT(options.threads, 0U);
  EXPECT_EQ(options.eval_every, 2U);
}

TEST(TrainOptions, EverySettingIsTakenFromItsFlag) {
  const std::vector<Setting> defaults = settings(parse({}).options);
  const std::vector<Setting> changed = settings(parse(everything_set("run")).options);
  std::set<std::string> compared;
  for (const Setting& setting : changed) {
    for (const Setting& standard : defaults) {
      if (standard.key != setting.key) continue;
      EXPECT_NE(standard.value, setting.value) << setting.key;
      compared.insert(setting.key);
    }
  }
  EXPECT_EQ(compared.size(), defaults.size());
  EXPECT_EQ(changed.size(), defaults.size() + 4)
      << "cold, warm-bytes, slow-rank and log-dir are written when they are given";
}

TEST(TrainOptions, WhatIsPrintedIsReadBackAndPrintedTheSame) {
  const TemporaryDirectory folder;
  const std::string file = (folder.path() / "run.toml").string();
  for (const auto& arguments : {std::vector<std::string>{}, everything_set("a run")}) {
    auto with_print = arguments;
    with_print.push_back("--print-config");
    const std::string printed = parse(with_print).print.value();
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
  EXPECT_THAT(refusal({"--config", file}), testing::HasSubstr("nodse"));
  std::ofstream(file) << "[run]\nnodes = 8\n";
  EXPECT_THAT(refusal({"--config", file}), testing::HasSubstr("run"));
  std::ofstream(file) << "nodes = \"many\"\n";
  EXPECT_THAT(refusal({"--config", file}), testing::HasSubstr("nodes"));
  EXPECT_THAT(refusal({"--config", (folder.path() / "none.toml").string()}), testing::HasSubstr("none.toml"));
}

TEST(TrainOptions, AnEdgeListBringsItsOwnNumberOfNodes) {
  EXPECT_EQ(parse({"--graph", "file:edges.txt"}).options.nodes, 0U);
  EXPECT_EQ(parse({"--graph", "file:edges.txt", "--nodes", "9"}).options.nodes, 9U);
}

TEST(TrainOptions, HelpAndVersionAreTextsAndNothingElseHappens) {
  const std::string help = parse({"--help"}).print.value();
  for (const char* word : {"--checkpoint-every", "dpsgd", "gossip", "random-regular:D", "dirichlet:A", "resnet18",
                           "synthetic-mnist", "Exit code"}) {
    EXPECT_THAT(help, testing::HasSubstr(word));
  }
  EXPECT_THAT(parse({"--version"}).print.value(), testing::StartsWith("shoal-train "));
}

TEST(TrainOptions, AnUnknownFlagIsRefusedWithTheListOfAll) {
  const std::string message = refusal({"--nodse", "8"});
  EXPECT_THAT(message, testing::HasSubstr("--nodse"));
  EXPECT_THAT(message, testing::HasSubstr("--nodes"));
  refusal({"8"});
}

struct BadValue {
  std::vector<std::string> arguments;
  std::string named;  // what the message speaks of
};

TEST(TrainOptions, AWrongValueIsRefusedInOneLineThatNamesTheFlag) {
  const std::vector<BadValue> table = {
      {{"--nodes", "0"}, "--nodes"},
      {{"--nodes", "-3"}, "--nodes"},
      {{"--nodes", "5000000000"}, "--nodes"},
      {{"--nodes", "many"}, "--nodes"},
      {{"--nodes"}, "--nodes"},
      {{"--nodes", "8", "--nodes", "9"}, "--nodes"},
      {{"--rounds", "few"}, "--rounds"},
      {{"--rounds", "-1"}, "--rounds"},
      {{"--seed", "x"}, "--seed"},
      {{"--seed", "-1"}, "--seed"},
      {{"--seed", "99999999999999999999"}, "--seed"},
      {{"--mixing", "stirring"}, "metropolis"},
      {{"--init", "random"}, "independent"},
      {{"--batch", "0"}, "--batch"},
      {{"--batch", "65537"}, "--batch"},
      {{"--augment", "rotate"}, "flip-crop"},
      {{"--algorithm", "adpsgd"}, "dpsgd"},
      {{"--order", "abc"}, "cta"},
      {{"--gossip-every", "0"}, "--gossip-every"},
      {{"--gossip-every", "5-3"}, "--gossip-every"},
      {{"--gossip-every", "3-"}, "--gossip-every"},
      {{"--gossip-every", ""}, "--gossip-every"},
      {{"--gossip-own", "1.5"}, "--gossip-own"},
      {{"--gossip-own", "nan"}, "--gossip-own"},
      {{"--gossip-buffer", "0"}, "--gossip-buffer"},
      {{"--average-buffers=maybe"}, "--average-buffers"},
      {{"--local-steps", "-1"}, "--local-steps"},
      {{"--local-steps", "10001"}, "--local-steps"},
      {{"--optimizer", "lion"}, "adamw"},
      {{"--lr", "fast"}, "--lr"},
      {{"--lr", "-0.1"}, "--lr"},
      {{"--lr", "nan"}, "--lr"},
      {{"--lr", "inf"}, "--lr"},
      {{"--lr-schedule", "linear"}, "cosine"},
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
      {{"--out", ""}, "--out"},
      {{"--store-io", "fast"}, "mapped"},
      {{"--warm-bytes", "much"}, "--warm-bytes"},
      {{"--ram", "much"}, "--ram"},
      {{"--ram", "-5"}, "--ram"},
      {{"--ram", "4GiBs"}, "--ram"},
      {{"--threads", "257"}, "--threads"},
      {{"--threads", "-1"}, "--threads"},
      {{"--checkpoint-every", "x"}, "--checkpoint-every"},
      {{"--checkpoint-every", "-1"}, "--checkpoint-every"},
      {{"--resume", "--overwrite"}, "--overwrite"},
      {{"--eval-every", "x"}, "--eval-every"},
      {{"--eval-every", "-1"}, "--eval-every"},
      {{"--eval-nodes", "-1"}, "--eval-nodes"},
      {{"--eval-samples", "0"}, "--eval-samples"},
      {{"--trace=perhaps"}, "--trace"},
      {{"--strict=perhaps"}, "--strict"},
      {{"--quiet=perhaps"}, "--quiet"},
      {{"--json=perhaps"}, "--json"},
  };
  for (const BadValue& bad : table) {
    SCOPED_TRACE(testing::PrintToString(bad.arguments));
    EXPECT_THAT(refusal(bad.arguments), testing::HasSubstr(bad.named));
  }
}

}  // namespace
}  // namespace shoal
