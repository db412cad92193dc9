// shoal-plan as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/e2e/program.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class PlanCli : public testing::Test {
 protected:
  PlanCli() {
    write_small_mnist(data_.path() / "mnist", 400, 64);
    less_ = {"--model",  "mlp:784-16-10",
             "--data",   "mnist:" + (data_.path() / "mnist").string(),
             "--nodes",  "64",
             "--graph",  "random-regular:4",
             "--rounds", "4",
             "--batch",  "4"};
    small_ = less_ + Arguments{"--ram", "20MiB"};
  }
  Outcome plan(const Arguments& arguments) const { return run_program(arguments, here_.path()); }
  // With the flags of a proposal ("fewer nodes: --nodes 8") in place of the run's own.
  static Arguments replaced(Arguments arguments, const std::string& proposal) {
    std::istringstream words(proposal.substr(proposal.find("--")));
    for (std::string flag, value; words >> flag >> value && flag.starts_with("--");) {
      if (const auto found = std::ranges::find(arguments, flag); found != arguments.end()) {
        arguments.erase(found, found + 2);
      }
      const bool last = value.ends_with(",");
      if (last) value.pop_back();
      arguments = arguments + Arguments{flag, value};
      if (last) break;
    }
    return arguments;
  }
  void expect_usage_error(const Arguments& arguments, const std::string& words) const {
    const Outcome outcome = plan(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(testing::StartsWith("shoal-plan: "), HasSubstr(words)));
  }

  TemporaryDirectory data_;
  TemporaryDirectory here_;
  Arguments less_;  // a run without --ram
  Arguments small_;
};

TEST_F(PlanCli, PrintsAPlanAndWritesNothing) {
  const Outcome outcome = plan(less_ + Arguments{"--ram", "12MiB"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* words : {"It fits", "weights", "optimizer.momentum", "copy-on-write", "arena", "peak RSS", "warm",
                            "cold", "read from disk", "found in RAM", "advice"}) {
    EXPECT_THAT(outcome.out, HasSubstr(words));
  }
  EXPECT_TRUE(fs::is_empty(here_.path()));
}

TEST_F(PlanCli, ShoalTrainsDryRunPrintsTheSame) {
  const auto dry_run = [&](const Arguments& arguments, int code) {
    std::string command = std::string("cd '") + here_.path().string() + "' && '" + SHOAL_TRAIN_PROGRAM + "' --dry-run";
    for (const std::string& argument : arguments) command += " '" + argument + "'";
    FILE* const pipe = ::popen(command.c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    std::string printed;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) printed.push_back(static_cast<char>(c));
    EXPECT_EQ(WEXITSTATUS(::pclose(pipe)), code);
    return printed;
  };
  // What is free on the disk may differ between the two.
  const auto after_disk = [](const std::string& text) { return text.substr(text.find("a node's record")); };
  EXPECT_EQ(after_disk(dry_run(small_, 0)), after_disk(plan(small_).out));
  for (const Arguments& arguments : {small_, less_ + Arguments{"--ram", "1MiB"}}) {
    auto here = nlohmann::json::parse(plan(arguments + Arguments{"--json"}).out);
    auto there = nlohmann::json::parse(dry_run(arguments + Arguments{"--json"}, here["fits"].get<bool>() ? 0 : 3));
    for (nlohmann::json* each : {&here, &there}) {
      for (nlohmann::json& disk : (*each)["disks"]) disk.erase("available_bytes");
    }
    EXPECT_EQ(there, here);
  }
}

TEST_F(PlanCli, JsonHasEveryFigureAndNothingElseIsPrinted) {
  const Outcome outcome = plan(small_ + Arguments{"--json"});
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["nodes"], 64);
  EXPECT_TRUE(json["fits"]);
  for (const char* key :
       {"per_node", "memory", "disk", "round", "run", "advice", "peak_rss_bytes", "least_ram_bytes"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_TRUE(json["time"].is_null());
}

TEST_F(PlanCli, ExplainsWhenAsked) {
  EXPECT_THAT(plan(small_ + Arguments{"--explain"}).out, HasSubstr("12730 parameters x 4 B"));
  EXPECT_THAT(plan(small_).out, Not(HasSubstr("parameters x 4 B")));
}

TEST_F(PlanCli, ReadsShoalTrainsConfiguration) {
  std::ofstream(here_.path() / "run.toml")
      << "model = \"quadratic:100:1:1\"\nnodes = 50\ngraph = \"ring\"\nram = \"20MiB\"\n";
  const Outcome outcome = plan({"--config", "run.toml", "--nodes", "40"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::StartsWith("40 nodes, quadratic:100:1:1"));
}

TEST_F(PlanCli, WhatDoesNotFitIsCodeThreeAndSaysByHowMuch) {
  const Outcome ram = plan(less_ + Arguments{"--ram", "1MiB"});
  EXPECT_EQ(ram.code, 3);
  EXPECT_THAT(ram.out, AllOf(HasSubstr("does not fit"), HasSubstr("RAM: "), HasSubstr("too little"),
                             HasSubstr("more RAM: --ram")));
  const Outcome disk = plan(less_ + Arguments{"--ram", "12MiB", "--disk", "100MB"});
  EXPECT_EQ(disk.code, 3);
  EXPECT_THAT(disk.out, AllOf(HasSubstr("disk: "), HasSubstr("--cold"), HasSubstr("--nodes")));
}

TEST_F(PlanCli, RefusesNonsense) {
  expect_usage_error({"--nodes", "0"}, "--nodes");
  expect_usage_error({"--model", "gpt"}, "gpt");
  expect_usage_error({"--ranks", "0"}, "--ranks");
  expect_usage_error({"--ranks", "2", "--hosts", "3"}, "--hosts");
  expect_usage_error({"--disk", "much"}, "much");
  expect_usage_error({"--sweep", "disk=1..2"}, "--sweep");
  expect_usage_error({"--csv", "a.csv"}, "--csv");
  expect_usage_error({"--nonsense"}, "--nonsense");
  expect_usage_error({"--profile", "none.toml"}, "none.toml");
  expect_usage_error({"calibrate"}, "--dir");
  expect_usage_error({"--sweep", "ram=1GiB..2GiB", "--verify"}, "one");
  expect_usage_error({"--sweep", "ram=1GiB..2GiB", "--explain"}, "--explain");
  expect_usage_error({"--sweep", "ram=1GiB..2GiB", "--csv", "none/a.csv"}, "none/a.csv");
  expect_usage_error({"calibrate", "--dir", ".", "--sweep", "nodes=1..3"}, "--sweep");
  expect_usage_error({"calibrate", "--dir", ".", "--profile", "none/p.toml"}, "none/p.toml");
  expect_usage_error({"--compare-naive", "--nodes", "8"}, "--nodes");
  expect_usage_error({"--compare-naive", "--ranks", "2"}, "--ranks");
  EXPECT_TRUE(fs::is_empty(here_.path()));
}

TEST_F(PlanCli, SweepsRamAndWritesCsv) {
  const Outcome outcome = plan(small_ + Arguments{"--sweep", "ram=8MiB..64MiB", "--csv", "ram.csv"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("64.0 MiB"), HasSubstr("#")));
  EXPECT_EQ(lines_of(read_text(here_.path() / "ram.csv")).size(), 5U);
}

TEST_F(PlanCli, SweepsFewNodesAndSaysWhichNumbersCannotBe) {
  const Outcome outcome = plan(small_ + Arguments{"--sweep", "nodes=1..7"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("random-regular"));
}

TEST_F(PlanCli, WhatIsProposedFits) {
  const auto proposed = [&](const Arguments& arguments) {
    const Outcome outcome = plan(arguments + Arguments{"--json"});
    EXPECT_EQ(outcome.code, 3) << outcome.err;
    const auto json = nlohmann::json::parse(outcome.out);
    return json["advice"]["changes"].get<std::vector<std::string>>();
  };
  const Arguments no_ram = less_ + Arguments{"--ram", "1MiB"};
  const Arguments no_disk = less_ + Arguments{"--ram", "12MiB", "--disk", "100MB"};
  const Arguments checkpoints = small_ + Arguments{"--disk", "60MiB", "--checkpoint-every", "2"};
  for (const Arguments& run : {no_ram, no_disk, checkpoints}) {
    const std::vector<std::string> changes = proposed(run);
    EXPECT_FALSE(changes.empty());
    for (const std::string& change : changes) {
      const Outcome outcome = plan(replaced(run, change));
      EXPECT_EQ(outcome.code, 0) << change << "\n" << outcome.out << outcome.err;
    }
  }
}

TEST_F(PlanCli, SweepsNodes) {
  const auto json = nlohmann::json::parse(plan(small_ + Arguments{"--sweep", "nodes=32..128", "--json"}).out);
  ASSERT_EQ(json.size(), 3U);
  EXPECT_EQ(json[2]["nodes"], 128);
  EXPECT_GT(json[2]["run"]["bytes_read"], json[0]["run"]["bytes_read"]);
}

TEST_F(PlanCli, PlansForSeveralRanks) {
  const auto one = nlohmann::json::parse(plan(small_ + Arguments{"--json"}).out);
  const Outcome outcome = plan(small_ + Arguments{"--ranks", "4", "--hosts", "2", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto four = nlohmann::json::parse(outcome.out);
  EXPECT_NEAR(four["records"].get<int>(), 16, 1);
  EXPECT_GT(four["guests"], 0);
  EXPECT_LE(four["guests"], 48);
  EXPECT_GT(four["round"]["near_bytes"], 0);
  EXPECT_GT(four["round"]["far_bytes"], 0);
  EXPECT_LT(four["disk"]["store_bytes"], one["disk"]["store_bytes"]);
}

TEST_F(PlanCli, RanksThatShareADiskAreAddedUpAndDiskIsEachRanks) {
  const Arguments two = small_ + Arguments{"--ranks", "2", "--json", "--store"};
  const auto shared = nlohmann::json::parse(plan(two + Arguments{"here/{local_rank}/{rank}/{host}"}).out);
  ASSERT_EQ(shared["disks"].size(), 1U);
  const auto needed = shared["disk"]["needed_bytes"].get<std::uint64_t>();
  EXPECT_EQ(shared["disks"][0]["needed_bytes"], 2 * needed);
  // Given, it is what one rank's store may take, however many there are.
  const Outcome enough = plan(two + Arguments{"x", "--disk", std::to_string(needed)});
  EXPECT_EQ(enough.code, 0) << enough.out;
  EXPECT_EQ(plan(two + Arguments{"x", "--disk", std::to_string(needed - 1)}).code, 3);
  expect_usage_error({"--store", "x/{local}"}, "{local_rank}");
  EXPECT_TRUE(fs::is_empty(here_.path()));
}

TEST_F(PlanCli, ComparesWithDesignsThatKeepEverythingInRam) {
  const auto rows = nlohmann::json::parse(plan({"--compare-naive", "--json"}).out);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[3]["published_bytes"], 710'000'000'000);
  for (const auto& row : rows) {
    EXPECT_LT(row["peak_rss_bytes"].get<std::uint64_t>(), row["published_bytes"].get<std::uint64_t>() / 4);
    EXPECT_LT(row["disk_peak_bytes"], row["published_bytes"]);
  }
}

TEST_F(PlanCli, CalibratesOnceAndPlansWithTimesFromThenOn) {
  const Outcome measured = plan(Arguments{"calibrate", "--dir", "."} + small_);
  ASSERT_EQ(measured.code, 0) << measured.err;
  EXPECT_EQ(std::distance(fs::directory_iterator(here_.path()), fs::directory_iterator()), 1);
  const auto json = nlohmann::json::parse(plan(small_ + Arguments{"--json"}).out);
  EXPECT_GT(json["time"]["round_seconds"], 0);
  EXPECT_GT(json["time"]["node_steps_per_second"], 0);
  EXPECT_TRUE(json["advice"]["smallest_fast_ram_bytes"].is_number());
  // A profile of another model is refused when asked for, and not used otherwise.
  Arguments other = small_;
  other[1] = "mlp:784-32-10";
  const Outcome asked = plan(other + Arguments{"--profile", "shoal-profile.toml"});
  EXPECT_EQ(asked.code, 2);
  EXPECT_THAT(asked.err, HasSubstr("mlp:784-16-10"));
  const Outcome found = plan(other);
  EXPECT_EQ(found.code, 0);
  EXPECT_THAT(found.err, HasSubstr("not used"));
}

TEST_F(PlanCli, VerifiesAgainstARealRun) {
  const Outcome outcome = plan(small_ + Arguments{"--verify", "--json", "--checkpoint-every", "2"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  std::set<std::string> lines;
  for (const auto& line : json["lines"]) {
    lines.insert(line["key"].get<std::string>());
    if (line["unit"] == "count") {
      EXPECT_EQ(line["predicted"].dump(), line["measured"].dump()) << line.dump();
    }
  }
  std::set<std::string> planned;
  const auto formulas =
      nlohmann::json::parse(plan(small_ + Arguments{"--json", "--checkpoint-every", "2"}).out)["formulas"];
  for (const auto& [object, figures] : formulas.items()) {
    for (const auto& [key, formula] : figures.items()) planned.insert(object == "plan" ? key : object + "." + key);
  }
  EXPECT_EQ(lines, planned);
  EXPECT_TRUE(fs::is_empty(here_.path()));
}

TEST_F(PlanCli, VerifiesWithFewerNodesOfWhichThereIsAGraph) {
  Arguments large = small_;
  large[5] = "2048";
  large[7] = "hypercube";
  const Outcome outcome = plan(large + Arguments{"--verify", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["nodes"], 512);
}

TEST_F(PlanCli, AVerificationThatIsStoppedLeavesNothing) {
  Program program(small_ + Arguments{"--verify", "--local-steps", "10000"}, here_.path());
  wait_until(program, [&] { return !program.children().empty(); });
  program.send(SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("stopped"));
  EXPECT_TRUE(fs::is_empty(here_.path()));
}

TEST_F(PlanCli, AMillionNodesTakeLessThanAGibibyte) {
  const Outcome outcome =
      plan({"--nodes", "1000000", "--ram", "4GiB", "--disk", "2TB", "--store", here_.path().string(), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(nlohmann::json::parse(outcome.out)["sampled"]);
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  EXPECT_LT(usage.ru_maxrss, 1 << 20);  // KiB
}

}  // namespace
}  // namespace shoal
