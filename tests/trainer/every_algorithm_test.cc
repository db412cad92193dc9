// What must be true of every algorithm that is registered, now and later.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "store/error.h"
#include "tests/store/temporary_directory.h"
#include "tests/trainer/plain_population.h"
#include "trainer/algorithm.h"
#include "trainer/checkpoint_note.h"
#include "trainer/train_options.h"

namespace shoal {
namespace {

class EveryAlgorithm : public testing::TestWithParam<std::string> {
 protected:
  EveryAlgorithm() {
    options_.algorithm = GetParam();
    options_.model = "quadratic:20:1:0.2";
    options_.graph = "watts-strogatz:4:0.3";
    options_.nodes = 30;
    options_.seed = 5;
    options_.optimizer.momentum = 0.5;
  }

  TrainOptions options_;
};

TEST_P(EveryAlgorithm, IsInTheHelpWithAllItsOptions) {
  const char* const argv[] = {"shoal-train", "--help"};
  const std::string help = parse_train_command(2, argv).print.value();
  EXPECT_THAT(help, testing::HasSubstr(fmt::format("\n  {:<12}", GetParam())));
  for (const OptionForm& option : algorithms().at(GetParam()).options) {
    EXPECT_THAT(help, testing::HasSubstr("\n  --" + option.name + " "));
  }
}

TEST_P(EveryAlgorithm, HasOptionsWhoseDefaultsAreValuesTheyTake) {
  for (const OptionForm& option : algorithms().at(GetParam()).options) {
    EXPECT_EQ(option.canonical(option.standard), option.standard) << option.name;
  }
}

// A value that the option takes and that is not its default; empty where a text of an unknown form is wanted.
std::string another_value(const OptionForm& option) {
  std::vector<std::string> candidates = option.choices;
  candidates.insert(candidates.end(), {"true", "3", "0.25", "2-4", "text"});
  for (const std::string& candidate : candidates) {
    if (candidate == option.standard) continue;
    try {
      return option.canonical(candidate);
    } catch (const Error&) {
      continue;
    }
  }
  return "";
}

TrainOptions parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "shoal-train");
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return parse_train_command(static_cast<int>(argv.size()), argv.data()).options;
}

TEST_P(EveryAlgorithm, TakesItsOptionsFromFlagsAndFilesAndARunIsNotResumedWithOthers) {
  const TemporaryDirectory folder;
  const std::string file = (folder.path() / "run.toml").string();
  const TrainOptions defaults = parse({"--algorithm", GetParam()});
  for (const OptionForm& option : algorithms().at(GetParam()).options) {
    SCOPED_TRACE(option.name);
    const std::string value = another_value(option);
    if (value.empty()) continue;
    const TrainOptions changed = parse({"--algorithm", GetParam(), "--" + option.name + "=" + value});
    EXPECT_EQ(algorithm_option(changed, option.name), value);
    std::ofstream(file) << to_toml(settings(changed));
    EXPECT_EQ(algorithm_option(parse({"--config", file}), option.name), value);
    CheckpointNote then;
    then.take_settings(defaults);
    CheckpointNote now;
    now.take_settings(changed);
    try {
      then.require_same(now);
      ADD_FAILURE() << "it was resumed";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("--" + option.name + " (was"));
    }
  }
}

TEST_P(EveryAlgorithm, RefusesTheOptionsOfOthers) {
  for (const auto& [other, entry] : algorithms()) {
    for (const OptionForm& option : entry.options) {
      const auto& mine = algorithms().at(GetParam()).options;
      if (std::ranges::find(mine, option.name, &OptionForm::name) != mine.end()) continue;
      try {
        parse({"--algorithm", GetParam(), "--" + option.name + "=" + option.standard});
        ADD_FAILURE() << "it took --" << option.name;
      } catch (const Error& error) {
        EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
        EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("--" + option.name), testing::HasSubstr(other)));
      }
    }
  }
}

TEST_P(EveryAlgorithm, SharesAnOptionWithAnotherOnlyWhereItIsTheSameOne) {
  for (const OptionForm& mine : algorithms().at(GetParam()).options) {
    for (const auto& [other, entry] : algorithms()) {
      for (const OptionForm& theirs : entry.options) {
        if (theirs.name != mine.name) continue;
        EXPECT_EQ(theirs.standard, mine.standard) << mine.name << " of " << other;
        EXPECT_EQ(theirs.help, mine.help) << mine.name << " of " << other;
      }
    }
  }
}

TEST_P(EveryAlgorithm, PlansNoMoreThanItSaysAndTheSameAgainAfterAResume) {
  const Experiment experiment(options_);
  const AlgorithmContext context = {experiment.options, experiment.graph(), experiment.order, experiment.team};
  const auto first = make_algorithm(context);
  const auto second = make_algorithm(context);
  for (std::uint64_t round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    const RoundPlan plan = first->plan(round);
    const RoundPlan again = second->plan(round);
    ASSERT_EQ(plan.accesses->size(), again.accesses->size());
    EXPECT_EQ(plan.local_steps, again.local_steps);
    EXPECT_TRUE(plan.local_steps.empty() || plan.local_steps.size() == plan.accesses->size());
    std::set<NodeId> acting;
    std::uint64_t reads = 0;
    for (std::size_t step = 0; step < plan.accesses->size(); ++step) {
      EXPECT_EQ(plan.accesses->node(step), again.accesses->node(step));
      EXPECT_LT(plan.accesses->node(step), first->records());
      EXPECT_TRUE(acting.insert(plan.accesses->node(step)).second) << "a node acts once in a round";
      EXPECT_TRUE(std::ranges::equal(plan.accesses->reads(step), again.accesses->reads(step)));
      EXPECT_LE(plan.accesses->reads(step).size(), first->max_reads());
      reads += plan.accesses->reads(step).size();
    }
    EXPECT_LE(reads, first->max_reads_per_round());
    if (first->all_act()) {
      EXPECT_EQ(acting.size(), first->records());
    }
  }
}

TEST_P(EveryAlgorithm, KeepsEqualModelsEqualWhileNobodyLearns) {
  options_.learning_rate = 0;
  PlainPopulation population(options_);
  const std::vector<float> first(population.model(0), population.model(0) + 20);
  population.run(30);
  for (NodeId record = 0; record < population.records(); ++record) {
    for (std::size_t k = 0; k < first.size(); ++k) EXPECT_NEAR(population.model(record)[k], first[k], 1e-5);
  }
}

TEST_P(EveryAlgorithm, Learns) {
  options_.learning_rate = 0.05;
  PlainPopulation population(options_);
  population.run(1);
  const double before = population.loss();
  population.run(199);
  while (std::isnan(population.loss())) population.run(1);  // nobody trained in that round
  EXPECT_LT(population.loss(), before);
}

INSTANTIATE_TEST_SUITE_P(Registered, EveryAlgorithm, testing::ValuesIn(algorithm_names()), [](const auto& test) {
  std::string name = test.param;  // a test's takes no '-'
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace shoal
