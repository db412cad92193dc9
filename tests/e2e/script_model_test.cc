// TorchScript files through shoal-train.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/program.h"
#include "tests/trainer/script_files.h"

namespace shoal {
namespace {

const Arguments kPlenty = {"--ram", "256MiB"};

class ScriptModels : public testing::Test {
 protected:
  ScriptModels() { write_small_mnist(here_.path() / "mnist", 400, 64); }

  nlohmann::json summary(const Arguments& arguments, const std::filesystem::path& out, unsigned ranks = 1) {
    return run_to_summary(common_ + Arguments{"--quiet"} + arguments, here_.path(), out, on_ranks(ranks));
  }

  const Arguments common_ = {"--model", "script:model.pt", "--data", "mnist:mnist",    "--batch",
                             "8",       "--seed",          "3",      "--eval-samples", "32"};
  TemporaryDirectory here_;
};

TEST_F(ScriptModels, WithBuffersOfAnySizeAreAveragedByAllreduceAndTheSameOnRanks) {
  write_buffered_script(here_.path() / "model.pt");
  const Arguments arguments =
      kPlenty + Arguments{"--algorithm", "allreduce", "--nodes", "6", "--graph", "ring", "--rounds", "3"};
  const auto result = summary(arguments + Arguments{"--threads", "2"}, "one");
  ASSERT_TRUE(result.is_object());
  EXPECT_TRUE(result["loss"].is_number()) << result["loss"];
  EXPECT_EQ(result["warning"], nullptr);
  const auto alone = summary(arguments + Arguments{"--threads", "1"}, "alone");
  EXPECT_EQ(alone["state_hash"], result["state_hash"]);
  const auto ranks = summary(arguments + Arguments{"--threads", "1"}, "ranks", 2);
  EXPECT_EQ(ranks["state_hash"], result["state_hash"]);
}

// Evaluation uses the running statistics, each node's own or mixed with its neighbours'.
TEST_F(ScriptModels, WithBatchNormGiveTheSameResultsOnRanksInRamAndOutOfIt) {
  write_batch_norm_script(here_.path() / "model.pt");
  const Arguments arguments = {"--nodes",      "100", "--graph",      "ring-lattice:4",
                               "--rounds",     "2",   "--eval-every", "1",
                               "--eval-nodes", "6",   "--threads",    "1",
                               "--lr",         "0.2", "--overwrite"};
  std::vector<std::string> hashes;
  std::vector<nlohmann::json> accuracies;
  for (const Arguments& buffers : {Arguments{}, Arguments{"--average-buffers"}}) {
    SCOPED_TRACE(testing::PrintToString(buffers));
    const auto one = summary(arguments + buffers + kPlenty, "one");
    ASSERT_TRUE(one.is_object());
    hashes.push_back(one["state_hash"]);
    accuracies.push_back(one["accuracy"]);
    const auto plenty = summary(arguments + buffers + kPlenty, "plenty", 2);
    ASSERT_TRUE(plenty.is_object());
    expect_same_results(here_.path() / "plenty", here_.path() / "one");
    EXPECT_GT(plenty["remote"]["bytes"], 0);
    const std::uint64_t least = plenty["least_ram_bytes"].get<std::uint64_t>() + (16 << 10);
    const auto little = summary(arguments + buffers + Arguments{"--ram", std::to_string(least)}, "little", 2);
    ASSERT_TRUE(little.is_object());
    expect_same_results(here_.path() / "little", here_.path() / "one");
    EXPECT_GT(little["bytes_read"], 0);
    EXPECT_GT(little["remote"]["requested_bytes"], 0);
  }
  EXPECT_NE(hashes[0], hashes[1]);
  EXPECT_NE(accuracies[0], accuracies[1]) << "the statistics were not looked at";
}

TEST_F(ScriptModels, WithDropoutGiveTheSameBitsForAnyThreadsRamRanksAndInterruption) {
  write_dropout_script(here_.path() / "model.pt");
  const Arguments nodes = {"--nodes", "150", "--graph", "ring-lattice:4", "--local-steps", "2"};
  const Arguments arguments = nodes + Arguments{"--rounds", "4"};
  const auto whole = summary(arguments + kPlenty + Arguments{"--threads", "1"}, "whole");
  ASSERT_TRUE(whole.is_object());
  const std::string hash = whole["state_hash"];
  EXPECT_EQ(summary(arguments + kPlenty + Arguments{"--threads", "2"}, "two")["state_hash"], hash);
  EXPECT_EQ(summary(arguments + kPlenty + Arguments{"--threads", "2"}, "ranks", 2)["state_hash"], hash);

  const auto ram = std::to_string(least_ram(common_ + arguments + Arguments{"--threads", "2"}, here_.path()));
  const auto little = summary(arguments + Arguments{"--threads", "2", "--ram", ram}, "little");
  EXPECT_EQ(little["state_hash"], hash);
  EXPECT_GT(little["bytes_read"], 0);

  const Arguments pieces = nodes + kPlenty + Arguments{"--threads", "2", "--checkpoint-every", "1"};
  summary(pieces + Arguments{"--rounds", "2"}, "pieces");
  EXPECT_EQ(summary(pieces + Arguments{"--rounds", "4", "--resume"}, "pieces")["state_hash"], hash);
}

TEST_F(ScriptModels, WithDropoutSayThatTheirStepsRunOneAtATime) {
  write_dropout_script(here_.path() / "model.pt");
  const auto said = [&](const std::string& threads) {
    const Arguments arguments = {"--nodes", "4", "--graph", "ring", "--rounds", "1", "--threads", threads};
    return run_program(common_ + kPlenty + arguments + Arguments{"--out", "run" + threads}, here_.path()).err;
  };
  EXPECT_THAT(said("2"), testing::HasSubstr("its steps run one at a time"));
  EXPECT_THAT(said("1"), testing::Not(testing::HasSubstr("one at a time")));
}

}  // namespace
}  // namespace shoal
