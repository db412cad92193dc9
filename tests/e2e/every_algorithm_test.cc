// The promise, for every algorithm that is registered: the same bits on one rank and two, with one thread and two, with
// much RAM and little, in one go and in two; and the bits that the definition gives. Options have their defaults.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/e2e/program.h"
#include "tests/trainer/plain_population.h"
#include "trainer/algorithm.h"
#include "trainer/train_options.h"

namespace shoal {
namespace {

class EveryAlgorithm : public testing::TestWithParam<std::string> {
 protected:
  nlohmann::json run(const Arguments& how, const std::filesystem::path& out, unsigned ranks = 1) const {
    return run_to_summary(arguments_ + how, here_.path(), out, on_ranks(ranks));
  }

  // With local steps and a little noise; long enough for schedules to begin.
  const Arguments arguments_ = {
      "--quiet", "--algorithm", GetParam(), "--model", "quadratic:3000:1:0.1", "--nodes", "42",
      "--graph", "torus",       "--seed",   "3",       "--local-steps",        "2"};
  const Arguments much_ = {"--ram", "256MiB", "--threads", "2", "--rounds", "14"};
  TemporaryDirectory here_;
};

TEST_P(EveryAlgorithm, GivesTheSameBitsHoweverItIsRun) {
  const auto whole = run(much_, "whole");
  ASSERT_TRUE(whole.is_object());

  const std::string least = std::to_string(least_ram(arguments_ + Arguments{"--threads", "1"}, here_.path()));
  run({"--ram", least, "--threads", "1", "--store-io", "posix", "--rounds", "14"}, "little");
  expect_same_results(here_.path() / "little", here_.path() / "whole");

  run(much_, "ranks", 2);
  expect_same_results(here_.path() / "ranks", here_.path() / "whole");

  run({"--ram", "256MiB", "--rounds", "5", "--checkpoint-every", "3"}, "pieces");
  run(much_ + Arguments{"--checkpoint-every", "3", "--resume"}, "pieces");
  expect_same_results(here_.path() / "pieces", here_.path() / "whole");

  const Arguments all = arguments_ + much_;
  std::vector<const char*> argv = {"shoal-train"};
  for (const std::string& argument : all) argv.push_back(argument.c_str());
  const TrainOptions options = parse_train_command(static_cast<int>(argv.size()), argv.data()).options;
  PlainPopulation plain(options);
  plain.run(options.rounds);
  EXPECT_EQ(plain.state_hash(), whole["state_hash"].get<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Registered, EveryAlgorithm, testing::ValuesIn(algorithm_names()), [](const auto& test) {
  std::string name = test.param;  // a test's takes no '-'
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace shoal
