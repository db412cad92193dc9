// shoal-store-bench as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "bench/memory_cgroup.h"
#include "tests/store/temporary_directory.h"

namespace shoal::bench {
namespace {

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

class StoreBench : public testing::Test {
 protected:
  // In an empty current folder.
  Outcome run(const std::string& arguments) const {
    const std::string err_file = (files_.path() / "stderr").string();
    const std::string command =
        "cd '" + here_.path().string() + "' && '" SHOAL_STORE_BENCH "' " + arguments + " 2>'" + err_file + "'";
    Outcome outcome;
    std::FILE* pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return outcome;
    char bytes[4096];
    for (std::size_t got = 0; (got = std::fread(bytes, 1, sizeof(bytes), pipe)) != 0;) outcome.out.append(bytes, got);
    const int status = ::pclose(pipe);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    std::ifstream err(err_file);
    outcome.err.assign(std::istreambuf_iterator<char>(err), {});
    return outcome;
  }

  TemporaryDirectory here_;
  TemporaryDirectory files_;
};

TEST_F(StoreBench, PrintsOnlyJsonWithTheDocumentedFieldsForEveryEngineAndVerb) {
  const Outcome outcome =
      run("--nodes 200 --layout 24KiB:16KiB --degree 5 --rounds 2 --threads 2 --json --histogram "
          "--engine shoal,shoal-posix,shoal-mapped,rocksdb,mmap,mmap-advised,files "
          "--workload fill,stream,gossip-round,random-read,checkpoint,stream,restore,demote,promote,verify");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json report = nlohmann::json::parse(outcome.out);
  EXPECT_TRUE(report.at("environment").is_object());
  EXPECT_TRUE(report.at("errors").empty());
  ASSERT_EQ(report.at("results").size(), 7U * 10);
  std::set<std::string> skipped;
  for (const nlohmann::json& result : report["results"]) {
    if (result.contains("skipped")) {
      skipped.insert(result["engine"].get<std::string>());
      continue;
    }
    for (const char* field :
         {"workload", "engine", "nodes", "ram_bytes", "rounds", "seconds", "logical_bytes", "device_read_bytes",
          "device_write_bytes", "lower_bound_bytes", "gigabytes_per_second", "p50_us", "p99_us", "peak_rss_bytes"}) {
      EXPECT_TRUE(result.contains(field)) << field << " in " << result;
    }
    EXPECT_GT(result["seconds"].get<double>(), 0);
  }
  // Only what others cannot do is left out, and it is said.
  EXPECT_THAT(skipped, testing::ElementsAre("files", "mmap", "mmap-advised", "rocksdb"));
  EXPECT_THAT(outcome.err, testing::HasSubstr("[mmap] checkpoint: skipped"));
  EXPECT_TRUE(std::filesystem::is_empty(here_.path())) << "temporary files were left behind";
}

TEST_F(StoreBench, StaysWithinTheRamNumberInACgroupOfThatSize) {
  const Outcome outcome =
      run("--nodes 600 --ram 18MiB --rounds 2 --json --workload fill,stream,gossip-round,checkpoint");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory would be measured";
  const nlohmann::json report = nlohmann::json::parse(outcome.out);
  for (const nlohmann::json& result : report.at("results")) EXPECT_TRUE(result.at("rss_within_budget").get<bool>());
  if (report["environment"]["memory_cgroup_bytes"].is_null()) {
    EXPECT_THAT(outcome.err, testing::HasSubstr("PAGE CACHE IS NOT LIMITED"));
    GTEST_SKIP() << "NO MEMORY CGROUP HERE: only the peak RSS was checked. "
                 << report["environment"]["memory_cgroup_refused"];
  }
  EXPECT_EQ(report["environment"]["memory_cgroup_bytes"].get<std::uint64_t>(), (18U + 64U) << 20);
}

TEST_F(StoreBench, RefusesWithOneLineAndTheRightCode) {
  const Outcome flag = run("--nodse 100");
  EXPECT_EQ(flag.code, 2);
  EXPECT_EQ(std::count(flag.err.begin(), flag.err.end(), '\n'), 1);
  EXPECT_THAT(flag.err, testing::HasSubstr("--nodes"));
  EXPECT_EQ(flag.out, "");

  const Outcome disk = run("--nodes 4000000000 --layout 1MiB:1MiB --engine mmap");
  EXPECT_EQ(disk.code, 1);
  EXPECT_THAT(disk.err, testing::HasSubstr("may need"));
  EXPECT_TRUE(std::filesystem::is_empty(here_.path()));
}

TEST_F(StoreBench, TouchesNothingInAFolderThatIsNotItsOwn) {
  std::ofstream(here_.path() / "thesis.tex") << "all my work";
  const Outcome outcome = run("--dir .");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, testing::HasSubstr("nothing was touched"));
  EXPECT_EQ(std::filesystem::file_size(here_.path() / "thesis.tex"), 11U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(here_.path()), {}), 1);
}

TEST_F(StoreBench, TunesAndReadsWhatItWroteAsAConfig) {
  const Outcome tune = run("--tune --nodes 60 --layout 24KiB:16KiB --rounds 1 --warmup 0 > tuned.toml");
  ASSERT_EQ(tune.code, 0) << tune.err;
  const Outcome use = run("--config tuned.toml --print-config");
  EXPECT_EQ(use.code, 0) << use.err;
  EXPECT_THAT(use.out, testing::HasSubstr("submit-batch = "));
  std::ofstream(here_.path() / "printed.toml") << use.out;
  const Outcome again = run("--config printed.toml --print-config");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, use.out);
}

}  // namespace
}  // namespace shoal::bench
