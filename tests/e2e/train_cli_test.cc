// shoal-train's manners: what it prints, what it refuses, and that a refusal leaves nothing behind.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <thread>

#include "tests/e2e/program.h"
#include "tests/store/refusing_kernel.h"
#include "tests/trainer/script_files.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

class TrainCli : public testing::Test {
 protected:
  Outcome run(const Arguments& arguments) const { return run_program(arguments, here_.path()); }

  // One line on stderr, nothing on stdout, nothing created or changed.
  void expect_refused(const Arguments& arguments, int code, const std::string& named) const {
    SCOPED_TRACE(testing::PrintToString(arguments));
    const auto before = contents_of(here_.path());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(lines_of(outcome.err).size(), 1U) << outcome.err;
    EXPECT_THAT(outcome.err, testing::StartsWith("shoal-train: "));
    EXPECT_THAT(outcome.err, testing::HasSubstr(named));
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(contents_of(here_.path()), before);
  }

  const Arguments small_ = {"--quiet", "--model", "quadratic:8", "--nodes", "8", "--ram", "64MiB", "--rounds", "3"};
  const Arguments ring_ = small_ + Arguments{"--graph", "ring"};
  const Arguments images_ = {"--quiet", "--nodes", "8", "--graph", "ring", "--ram", "1GiB", "--rounds", "1"};
  TemporaryDirectory here_;
};

TEST_F(TrainCli, RefusesWhatItDoesNotUnderstandWithCodeTwo) {
  std::ofstream(here_.path() / "unknown.toml") << "nodes = 8\nnodse = 9\n";
  std::ofstream(here_.path() / "no-model.pt") << "no zip archive";
  expect_refused(ring_ + Arguments{"--nodse", "9"}, 2, "--nodse");
  expect_refused({"--config", "unknown.toml"}, 2, "nodse");
  expect_refused(ring_ + Arguments{"--momentum", "1"}, 2, "--momentum");
  expect_refused(small_ + Arguments{"--graph", "web"}, 2, "--graph web: choose from ring");
  expect_refused({"--model", "quadratic:8", "--nodes", "9", "--graph", "random-regular:3"}, 2, "even");
  expect_refused(small_ + Arguments{"--graph", "file:none.txt"}, 2, "none.txt");
  expect_refused(images_ + Arguments{"--model", "lenet6"}, 2, "--model lenet6: choose from lenet5");
  expect_refused(images_ + Arguments{"--model", "mlp:700-10"}, 2, "784");
  expect_refused(images_ + Arguments{"--model", "script:none.pt"}, 2, "none.pt");
  expect_refused(images_ + Arguments{"--model", "script:no-model.pt"}, 2, "not a TorchScript file");
  expect_refused(images_ + Arguments{"--data", "imagenet"}, 2, "--data imagenet: choose from synthetic-mnist");
  expect_refused(images_ + Arguments{"--partition", "half"}, 2, "--partition half: choose from iid");
  expect_refused(images_ + Arguments{"--device", "cuda"}, 2, "--device cuda: ");
  expect_refused(images_ + Arguments{"--device", "abacus"}, 2, "--device abacus: write cpu");
  expect_refused(ring_ + Arguments{"--data", "nonsense"}, 2, "--data nonsense: choose from");
  expect_refused(ring_ + Arguments{"--partition", "nonsense"}, 2, "makes its own data; leave out --partition");
  expect_refused(small_ + Arguments{"--graph", "star", "--mixing", "uniform"}, 2, "use metropolis");
  expect_refused(ring_ + Arguments{"--algorithm", "gossip", "--average-buffers"}, 2, "--average-buffers");
  expect_refused(ring_ + Arguments{"--resume"}, 2, "no run");
  expect_refused(ring_ + Arguments{"--async", "sometimes"}, 2, "--async sometimes: choose from rounds, free");
  expect_refused(ring_ + Arguments{"--neighbour-reads", "none"}, 2, "--neighbour-reads none: choose from auto");
  expect_refused(ring_ + Arguments{"--slow-rank", "1:slow"}, 2, "--slow-rank 1:slow: a rank and how many times");
  expect_refused(ring_ + Arguments{"--cold", "{node}/cold"}, 2, "--cold {node}/cold: only {rank}, {local_rank}");
  expect_refused(ring_ + Arguments{"--cold", "cold/{rank"}, 2, "--cold cold/{rank: only {rank}");
  expect_refused(ring_ + Arguments{"--store", "{}/store"}, 2, "--store {}/store: only {rank}");
  expect_refused(ring_ + Arguments{"--store", "{}/store", "--dry-run"}, 2, "--store {}/store: only {rank}");
  for (const char* flag : {"--nesterov", "--resume", "--overwrite"}) {
    expect_refused(ring_ + Arguments{std::string(flag) + "=3x"}, 2,
                   std::string(flag) + " 3x: it must be true or false");
  }
}

TEST_F(TrainCli, RefusesWhatItWouldIgnore) {
  write_constant_script(here_.path() / "net.pt", 0.1);
  expect_refused(ring_ + Arguments{"--batch", "8", "--augment", "flip-crop"}, 2, "leave out --batch, --augment");
  expect_refused(ring_ + Arguments{"--intra-op", "2"}, 2, "--intra-op 2: a step of --model quadratic:8");
  expect_refused(images_ + Arguments{"--model", "script:net.pt", "--init", "independent"}, 2, "the file's weights");
  expect_refused(ring_ + Arguments{"--slow-rank", "1:2x"}, 2, "--slow-rank 1: there is no such rank");
  expect_refused(ring_ + Arguments{"--optimizer", "adam", "--nesterov"}, 2, "--nesterov: it is for --optimizer sgd");
  expect_refused(ring_ + Arguments{"--optimizer", "adam", "--momentum", "0.9"}, 2, "it is for --optimizer sgd");
  expect_refused(ring_ + Arguments{"--strict=7"}, 2, "--strict");
}

TEST_F(TrainCli, FailsWithCodeOneOnFilesThatAreNotThereOrDamaged) {
  expect_refused(images_ + Arguments{"--data", "mnist:nowhere"}, 1, "nowhere");
  expect_refused(images_ + Arguments{"--data", "cifar10:nowhere"}, 1, "nowhere");
  write_small_mnist(here_.path() / "mnist", 20, 10);
  fs::resize_file(here_.path() / "mnist" / "train-images-idx3-ubyte", 1000);
  expect_refused(images_ + Arguments{"--data", "mnist:mnist"}, 1, "cut short");
  write_small_cifar10(here_.path() / "cifar", 2);
  fs::resize_file(here_.path() / "cifar" / "test_batch.bin", 1000);
  expect_refused(images_ + Arguments{"--data", "cifar10:cifar"}, 1, "test_batch.bin");
}

TEST_F(TrainCli, FailsWithCodeOneWhereItCannotWrite) {
  std::ofstream(here_.path() / "plain") << "a file";
  expect_refused(ring_ + Arguments{"--out", "plain/run"}, 1, "plain/run");
  expect_refused(ring_ + Arguments{"--out", "plain"}, 1, "plain");
  expect_refused(ring_ + Arguments{"--store", "plain/store"}, 1, "plain/store");
  expect_refused(ring_ + Arguments{"--cold", "plain/cold"}, 1, "plain/cold");
  expect_refused(ring_ + Arguments{"--log-dir", "plain"}, 1,
                 "--log-dir: cannot write plain/rank-0.log: Not a directory");
  expect_refused(ring_ + Arguments{"--log-dir", "plain/logs"}, 1,
                 "--log-dir: cannot write plain/logs/rank-0.log: Not a directory");
}

TEST_F(TrainCli, NamesTheLeastRamAndThatIsEnough) {
  const Arguments common = {"--quiet", "--model", "quadratic:30000", "--nodes", "30",
                            "--graph", "ring",    "--rounds",        "2"};
  // In the second all nodes read all neighbours in a tick.
  for (const Arguments& how : {Arguments{}, Arguments{"--algorithm", "gossip", "--gossip-every", "1"}}) {
    const Arguments arguments = common + how + Arguments{"--overwrite"};
    expect_refused(arguments + Arguments{"--ram", "0"}, 2, "at least");
    expect_refused(arguments + Arguments{"--ram", "5MiB"}, 2, "at least");
    const std::uint64_t least = least_ram(arguments, here_.path());
    expect_refused(arguments + Arguments{"--ram", std::to_string(least - 1)}, 2, std::to_string(least));
    const Outcome outcome = run(arguments + Arguments{"--ram", std::to_string(least)});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::filesystem::remove_all(here_.path() / "shoal-run");
  }
}

TEST_F(TrainCli, LeavesARunThatIsThereAlone) {
  const Arguments arguments = ring_ + Arguments{"--checkpoint-every", "2"};
  ASSERT_EQ(run(arguments).code, 0);
  expect_refused(arguments, 2, "--overwrite");
  // Its store, under another --out.
  expect_refused(arguments + Arguments{"--out", "other", "--store", "shoal-run/store"}, 1, "shoal-run/store");
  const std::string first = summary_of(here_.path() / "shoal-run")["state_hash"];
  const Outcome again = run(arguments + Arguments{"--overwrite", "--seed", "2"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(summary_of(here_.path() / "shoal-run")["state_hash"], first);
  EXPECT_EQ(metrics_of(here_.path() / "shoal-run").size(), 3U);
}

TEST_F(TrainCli, LeavesARunThatIsUnderWayAlone) {
  const Arguments arguments = {"--quiet", "--model", "quadratic:1000",     "--nodes", "40",      "--graph", "ring",
                               "--ram",   "64MiB",   "--checkpoint-every", "1000000", "--rounds"};
  Program first(arguments + Arguments{"1000000"}, here_.path());
  const fs::path metrics = here_.path() / "shoal-run" / "metrics.jsonl";
  const auto rounds = [&] { return lines_of(read_text(metrics)).size(); };
  while (first.running() && rounds() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  for (const char* how : {"--overwrite", "--resume"}) {
    const std::size_t before = rounds();
    const Outcome second = run(arguments + Arguments{"1000000", how});
    EXPECT_EQ(second.code, 1) << second.err;
    EXPECT_EQ(lines_of(second.err).size(), 1U) << second.err;
    EXPECT_THAT(second.err, testing::HasSubstr("in use"));
    EXPECT_TRUE(first.running());
    EXPECT_GE(rounds(), before);
  }
  first.send(SIGTERM);
  EXPECT_EQ(first.wait().code, 0);
  const auto lines = metrics_of(here_.path() / "shoal-run");
  for (std::size_t i = 0; i < lines.size(); ++i) ASSERT_EQ(lines[i]["round"], i);
}

TEST_F(TrainCli, SaysBeforehandWhenTheDiskIsTooSmall) {
  const Arguments petabytes = {
      "--model", "quadratic:100000000", "--nodes", "1000000", "--graph", "ring", "--ram", "64GiB", "--quiet"};
  expect_refused(petabytes, 1, "too little");
}

TEST_F(TrainCli, StrictRefusesAModeThatIsNotWhatWasAskedForAndNamesIt) {
  const Arguments direct = ring_ + Arguments{"--store-io", "direct"};
  EXPECT_EQ(run(direct + Arguments{"--strict", "--out", "given"}).code, 0);
  with_refusing_kernel(Refused::kIoUring, [&] {
    EXPECT_EQ(run(direct + Arguments{"--out", "lenient"}).code, 0);
    const Outcome strict = run(direct + Arguments{"--strict", "--out", "strict"});
    EXPECT_EQ(strict.code, 1);
    EXPECT_EQ(lines_of(strict.err).size(), 1U) << strict.err;
    EXPECT_THAT(strict.err, testing::StartsWith("shoal-train: --strict: "));
    EXPECT_THAT(strict.err, testing::HasSubstr("where io_uring was asked for"));
  });
}

TEST_F(TrainCli, RefusesToGoOnWithOtherSettingsAndNamesThem) {
  const std::vector<std::pair<std::string, std::string>> same = {
      {"--model", "quadratic:8"}, {"--nodes", "8"}, {"--graph", "ring"}, {"--lr", "0.1"}, {"--rounds", "3"}};
  const auto with = [&](const Arguments& changed) {
    Arguments arguments = Arguments{"--quiet", "--ram", "64MiB", "--checkpoint-every", "2"} + changed;
    for (const auto& [key, value] : same) {
      if (changed.empty() || changed.front() != key) arguments = arguments + Arguments{key, value};
    }
    return arguments;
  };
  ASSERT_EQ(run(with({})).code, 0);
  for (const Arguments& changed : std::vector<Arguments>{{"--seed", "2"},
                                                         {"--lr", "0.2"},
                                                         {"--graph", "star"},
                                                         {"--order", "atc"},
                                                         {"--model", "quadratic:9"},
                                                         {"--nodes", "9"},
                                                         {"--optimizer", "adam"},
                                                         {"--algorithm", "allreduce"}}) {
    expect_refused(with(changed) + Arguments{"--resume"}, 2, changed.front() + " (was");
  }
  // Fewer rounds than are done already: the store must be opened to know.
  const Outcome fewer = run(with({"--rounds", "1"}) + Arguments{"--resume"});
  EXPECT_EQ(fewer.code, 2);
  EXPECT_EQ(lines_of(fewer.err).size(), 1U) << fewer.err;
  EXPECT_THAT(fewer.err, testing::HasSubstr("--rounds 1"));
  EXPECT_EQ(metrics_of(here_.path() / "shoal-run").size(), 3U);
}

TEST_F(TrainCli, DryRunSaysWhatItTakesAndWritesNothing) {
  const Outcome outcome = run(ring_ + Arguments{"--dry-run"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* word : {"record", "disk", "RAM", "at least", "arena"}) {
    EXPECT_THAT(outcome.out, testing::HasSubstr(word));
  }
  EXPECT_TRUE(fs::is_empty(here_.path()));
}

TEST_F(TrainCli, DryRunOfWhatDoesNotFitIsCodeThreeAndWritesNothing) {
  const Arguments much = {"--model", "quadratic:400000000", "--nodes", "400", "--graph", "ring"};
  for (const char* ram : {"0", "1MiB", "64GiB"}) {  // too little RAM, and too little disk
    SCOPED_TRACE(ram);
    const Outcome outcome = run(much + Arguments{"--ram", ram, "--dry-run"});
    EXPECT_EQ(outcome.code, 3) << outcome.err;
    EXPECT_THAT(outcome.out, testing::HasSubstr("does not fit"));
    EXPECT_TRUE(fs::is_empty(here_.path()));
  }
}

TEST_F(TrainCli, PrintsAConfigurationThatGivesTheSameRun) {
  const Outcome printed = run(ring_ + Arguments{"--lr", "0.3", "--print-config"});
  ASSERT_EQ(printed.code, 0);
  EXPECT_TRUE(fs::is_empty(here_.path()));
  std::ofstream(here_.path() / "run.toml") << printed.out;
  EXPECT_EQ(run({"--config", "run.toml", "--print-config"}).out, printed.out);

  ASSERT_EQ(run(ring_ + Arguments{"--lr", "0.3", "--out", "by #flags"}).code, 0);
  ASSERT_EQ(run({"--quiet", "--config", "run.toml", "--out", "by-file"}).code, 0);
  const auto by_flags = summary_of(here_.path() / "by #flags");
  EXPECT_EQ(summary_of(here_.path() / "by-file")["state_hash"], by_flags["state_hash"]);
  // And so does what a run leaves behind.
  ASSERT_EQ(run({"--quiet", "--config", "by #flags/config.toml", "--out", "again", "--store", "again/store"}).code, 0);
  EXPECT_EQ(summary_of(here_.path() / "again")["state_hash"], by_flags["state_hash"]);
}

TEST_F(TrainCli, PrintsTheSummaryAsJsonAlone) {
  Arguments loud = ring_ + Arguments{"--json"};
  loud.erase(std::find(loud.begin(), loud.end(), "--quiet"));
  const Outcome outcome = run(loud);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err, "") << "progress belongs there";
  const auto summary = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(summary, summary_of(here_.path() / "shoal-run"));
  for (const char* key : {"nodes",
                          "rounds",
                          "ranks",
                          "threads",
                          "node_steps",
                          "wall_seconds",
                          "node_steps_per_second",
                          "state_bytes_per_node",
                          "state_hash",
                          "ram_budget_bytes",
                          "peak_rss_bytes",
                          "store_bytes",
                          "bytes_read",
                          "bytes_written",
                          "remote_bytes",
                          "stall_seconds",
                          "accuracy_mean",
                          "accuracy_mean_model",
                          "consensus_distance",
                          "memory"}) {
    EXPECT_TRUE(summary.contains(key)) << key;
  }
  EXPECT_EQ(summary["nodes"], 8);
  EXPECT_EQ(summary["rounds"], 3);
  EXPECT_EQ(summary["node_steps"], 24);
  EXPECT_EQ(summary["ram_budget_bytes"], 64 << 20);
  EXPECT_TRUE(summary["stall_seconds"].is_object());
  EXPECT_TRUE(summary["memory"].contains("arena"));
}

TEST_F(TrainCli, CountsWhatCheckpointsAndTheColdTierWrite) {
  const Arguments population = {"--quiet", "--model", "quadratic:5000", "--nodes", "40", "--graph", "ring"};
  const auto resident = run_to_summary(
      population + Arguments{"--ram", "128MiB", "--rounds", "3", "--checkpoint-every", "1"}, here_.path(), "resident");
  const std::uint64_t state = 40 * resident["state_bytes_per_node"].get<std::uint64_t>();
  EXPECT_GE(resident["checkpoint_bytes"], 3 * state);
  EXPECT_LT(resident["checkpoint_bytes"], 3 * state + (1 << 20));
  // Rounds touch no disk; but RocksDB may compact the checkpoints' tables in between.
  EXPECT_GE(resident["bytes_written"], resident["checkpoint_bytes"]);
  EXPECT_LT(resident["bytes_written"], 3 * state + (1 << 20));
  // A line tells of the checkpoint before its round.
  const auto metrics = metrics_of(here_.path() / "resident");
  EXPECT_EQ(metrics[0]["checkpoint_bytes"], 0);
  EXPECT_GE(metrics[1]["checkpoint_bytes"], state);
  EXPECT_LT(metrics[1]["bytes_written"], 1 << 20);

  const std::string ram = std::to_string(least_ram(population + Arguments{"--threads", "2"}, here_.path()));
  const auto cold =
      run_to_summary(population + Arguments{"--ram", ram, "--rounds", "2", "--threads", "2", "--warm-bytes", "100KiB"},
                     here_.path(), "cold");
  EXPECT_EQ(cold["checkpoint_bytes"], 0);
  EXPECT_GT(cold["cold_bytes_written"], state / 2);
  EXPECT_GE(cold["bytes_written"], cold["cold_bytes_written"]);
  EXPECT_GT(cold["cold_bytes_read"], state / 2);
}

TEST_F(TrainCli, CountsByTierWhereRecordsWereFound) {
  const Arguments population = {"--quiet",  "--model", "quadratic:5000", "--nodes", "40", "--graph", "ring",
                                "--rounds", "3",       "--threads",      "2"};
  constexpr std::uint64_t kUses = 40 * (2 + 2);  // own public and private record, two neighbours'
  const Arguments little = {"--ram", std::to_string(least_ram(population, here_.path()))};
  const auto hits = [&](const Arguments& how, const fs::path& out, unsigned ranks = 1) {
    EXPECT_TRUE(run_to_summary(population + how, here_.path(), out, on_ranks(ranks)).is_object());
    return metrics_of(here_.path() / out).back()["tier_hits"];
  };
  const auto sum = [](const nlohmann::json& tiers) {
    return tiers["hot"].get<std::uint64_t>() + tiers["warm"].get<std::uint64_t>() + tiers["cold"].get<std::uint64_t>();
  };
  EXPECT_EQ(hits({"--ram", "128MiB"}, "hot"), (nlohmann::json{{"hot", kUses}, {"warm", 0}, {"cold", 0}}));
  const auto warm = hits(little, "warm");
  EXPECT_GT(warm["warm"], 0);
  EXPECT_EQ(warm["cold"], 0);
  EXPECT_EQ(sum(warm), kUses);
  const auto cold = hits(little + Arguments{"--warm-bytes", "100KiB"}, "cold");
  EXPECT_GT(cold["cold"], 0);
  EXPECT_EQ(sum(cold), kUses);
  // Of all ranks. What one reads of another's is not a tier's.
  const auto ranks = hits({"--ram", "128MiB"}, "ranks", 2);
  EXPECT_EQ(sum(ranks), kUses - 2 * summary_of(here_.path() / "ranks")["partition"]["cut_edges"].get<std::uint64_t>());
}

TEST_F(TrainCli, CountsAllNodesThatActAlsoWhereTheyHaveOneModel) {
  for (const unsigned ranks : {1U, 2U}) {
    const auto out = fmt::format("run{}", ranks);
    const Arguments how = {"--algorithm", "allreduce", "--local-steps", "2"};
    ASSERT_TRUE(run_to_summary(ring_ + how, here_.path(), out, on_ranks(ranks)).is_object());
    for (const nlohmann::json& line : metrics_of(here_.path() / out)) {
      EXPECT_EQ(line["acting"], 8);
      EXPECT_EQ(line["trained"], 8);
      EXPECT_EQ(line["node_steps"], 16);
    }
  }
}

TEST_F(TrainCli, QuietSaysNothingButTheSummary) {
  const Outcome outcome = run(ring_);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, testing::HasSubstr("state_hash " +
                                              summary_of(here_.path() / "shoal-run")["state_hash"].get<std::string>()));
}

TEST_F(TrainCli, ReportsTheSpeedThatTheSummaryHas) {
  for (const Arguments& how : {Arguments{}, Arguments{"--algorithm", "allreduce"}, Arguments{"--local-steps", "4"},
                               Arguments{"--algorithm", "gossip"}}) {
    SCOPED_TRACE(testing::PrintToString(how));
    fs::remove_all(here_.path() / "logs");
    Arguments loud = small_ + how + Arguments{"--graph", "ring", "--log-dir", "logs", "--overwrite"};
    loud.erase(std::find(loud.begin(), loud.end(), "--quiet"));
    const Outcome outcome = run(loud);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const std::string last = lines_of(outcome.err).back();
    const double speed = summary_of(here_.path() / "shoal-run")["node_steps_per_second"];
    EXPECT_THAT(last, testing::StartsWith(fmt::format("training round 3/3, {:.1f} node-steps/s, 0 s left, ", speed)));
    EXPECT_EQ(lines_of(read_text(here_.path() / "logs" / "rank-0.log")).back(), last);
  }
}

TEST_F(TrainCli, SaysWhenNobodyTrainedInARound) {
  ASSERT_EQ(run(ring_ + Arguments{"--algorithm", "gossip", "--gossip-every", "1000", "--log-dir", "logs"}).code, 0);
  EXPECT_THAT(read_text(here_.path() / "logs" / "rank-0.log"), testing::HasSubstr("nobody trained"));
  EXPECT_THAT(read_text(here_.path() / "logs" / "rank-0.log"), testing::Not(testing::HasSubstr("nan")));
}

TEST_F(TrainCli, LeavesTheLossOfANodeThatHasNotTrainedEmpty) {
  ASSERT_EQ(run(ring_ + Arguments{"--algorithm", "gossip", "--gossip-every", "6"}).code, 0);
  std::size_t trained = 0;
  const auto nodes = lines_of(read_text(here_.path() / "shoal-run" / "nodes.csv"));
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    SCOPED_TRACE(nodes[i]);
    const bool has_trained = nodes[i].find(",0,") == std::string::npos;
    EXPECT_EQ(nodes[i].find(",2,,") == std::string::npos, has_trained);
    trained += has_trained ? 1 : 0;
  }
  EXPECT_GT(trained, 0U);
  EXPECT_LT(trained, 8U) << "three ticks of six";
}

TEST_F(TrainCli, SaysOnceWhatTheNetworkIs) {
  Arguments loud = small_ + Arguments{"--graph", "star"};
  loud.erase(std::find(loud.begin(), loud.end(), "--quiet"));
  const Outcome outcome = run(loud);
  const std::string network = "7 edges, degree 1 to 7, 1.75 in the mean, diameter about 2, spectral gap 0.125";
  EXPECT_THAT(outcome.err, testing::HasSubstr(network));
  EXPECT_THAT(read_text(here_.path() / "shoal-run" / "report.html"), testing::HasSubstr(network));
  EXPECT_EQ(summary_of(here_.path() / "shoal-run")["graph"]["degree_mean"], 1.75);
  EXPECT_EQ(summary_of(here_.path() / "shoal-run")["graph"]["spectral_gap_is_bound"], false);
}

TEST_F(TrainCli, WritesALinePerNodeAndARoundPerLine) {
  std::ofstream(here_.path() / "edges.txt") << "anna bert\nbert carl\ncarl anna\ncarl dora\n";
  const Outcome outcome =
      run({"--quiet", "--model", "quadratic:8", "--ram", "64MiB", "--graph", "file:edges.txt", "--rounds", "3"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const fs::path folder = here_.path() / "shoal-run";
  const auto nodes = lines_of(read_text(folder / "nodes.csv"));
  ASSERT_EQ(nodes.size(), 5U);
  const auto columns = std::count(nodes[0].begin(), nodes[0].end(), ',');
  EXPECT_THAT(nodes[0], testing::StartsWith("node,degree,loss,"));
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    EXPECT_THAT(nodes[i], testing::StartsWith(std::to_string(i - 1) + ","));
    EXPECT_EQ(std::count(nodes[i].begin(), nodes[i].end(), ','), columns);
  }
  EXPECT_THAT(read_text(folder / "node_names.csv"), testing::HasSubstr("dora"));
  EXPECT_EQ(metrics_of(folder).size(), 3U);
  EXPECT_THAT(read_text(folder / "report.html"), testing::HasSubstr("</html>"));
  EXPECT_FALSE(fs::exists(folder / "trace.json"));
  EXPECT_FALSE(fs::exists(folder / "store" / "public.slab")) << "nobody could go on from it";
}

TEST_F(TrainCli, TracesWhatEachWorkerDidAndWhatWasWaitedFor) {
  ASSERT_EQ(run(ring_ + Arguments{"--trace", "--checkpoint-every", "2"}).code, 0);
  const auto trace = nlohmann::json::parse(read_text(here_.path() / "shoal-run" / "trace.json"));
  std::map<std::string, int> count;
  std::vector<int> rounds;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const std::string name = event.at("name");
    ++count[name];
    EXPECT_GE(event.at("dur"), 0);
    if (name == "mix" || name == "compute") {
      EXPECT_TRUE(event.at("args").contains("node"));
    }
    if (name == "round") rounds.push_back(event.at("args").at("round"));
    if (name == "checkpoint") {
      EXPECT_GE(event.at("args").at("round"), 1);
    }
  }
  EXPECT_GE(count["mix"], 24);
  EXPECT_GE(count["compute"], 24);
  EXPECT_GE(count["waiting for store"], 24);
  EXPECT_GE(count["waiting for compute"], 1);
  EXPECT_EQ(count["creating nodes"], 1);
  EXPECT_EQ(count["checkpoint"], 2);
  EXPECT_EQ(rounds, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(summary_of(here_.path() / "shoal-run")["trace"]["left_out"], 0);
}

TEST_F(TrainCli, HasAllOtherResultsWhereATraceCannotBeWritten) {
  const fs::path folder = here_.path() / "shoal-run";
  ASSERT_EQ(run(ring_ + Arguments{"--out", "plain"}).code, 0);
  fs::create_directories(folder / "trace.json");
  const Outcome outcome = run(ring_ + Arguments{"--trace"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, testing::HasSubstr("trace.json: cannot be written"));
  expect_same_results(folder, here_.path() / "plain");
  EXPECT_THAT(read_text(folder / "report.html"), testing::HasSubstr("</html>"));
  EXPECT_FALSE(fs::exists(folder / "store" / "public.slab"));
}

}  // namespace
}  // namespace shoal
