#include "bench/bench_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/error.h"

namespace shoal::bench {
namespace {

CommandLine parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "shoal-store-bench");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

// The message of the usage error; empty when there is none.
std::string refusal(const std::vector<const char*>& arguments) {
  try {
    parse(arguments);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(BenchOptions, HaveGoodDefaults) {
  const BenchOptions options = parse({}).options;
  EXPECT_EQ(options.nodes, 2000U);
  EXPECT_EQ(options.layout.payload_bytes(Part::kPublic), 61'706U * 4);
  EXPECT_EQ(options.ram_bytes, options.state_bytes() / 16);
  EXPECT_THAT(options.engines, testing::ElementsAre("shoal"));
}

TEST(BenchOptions, AreRead) {
  const BenchOptions options =
      parse({"--nodes", "100", "--layout", "1MiB:0", "--ram", "64MiB", "--engine", "mmap,files", "--workload",
             "random-read,verify", "--degree=3", "--queue-depth", "4", "--prefetch-bytes", "8MB"})
          .options;
  EXPECT_EQ(options.nodes, 100U);
  EXPECT_EQ(options.layout.payload_bytes(Part::kPublic), 1U << 20);
  EXPECT_EQ(options.layout.payload_bytes(Part::kPrivate), 0U);
  EXPECT_EQ(options.ram_bytes, 64U << 20);
  EXPECT_THAT(options.engines, testing::ElementsAre("mmap", "files"));
  EXPECT_THAT(options.verbs, testing::ElementsAre(Verb::kRandomRead, Verb::kVerify));
  EXPECT_EQ(options.degree, 3U);
  EXPECT_EQ(options.prefetch_bytes, 8'000'000U);
}

TEST(BenchOptions, RefusalsNameTheChoices) {
  EXPECT_THAT(refusal({"--engine", "sqlite"}), testing::HasSubstr("shoal-posix"));
  EXPECT_THAT(refusal({"--workload", "fill,dance"}), testing::HasSubstr("gossip-round"));
  EXPECT_THAT(refusal({"--layout", "vgg"}), testing::HasSubstr("lenet5-sgd"));
  EXPECT_THAT(refusal({"--queue-dept", "4"}), testing::HasSubstr("the nearest is --queue-depth"));
  EXPECT_THAT(refusal({"--ram", "1KiB"}), testing::HasSubstr("needs at least"));
}

TEST(BenchOptions, RefuseWhatCannotWork) {
  const std::vector<std::vector<const char*>> wrong = {
      {"--nodes", "0"},
      {"--nodes", "-5"},
      {"--nodes", "many"},
      {"--nodes", "8", "--degree", "8"},
      {"--rounds", "0"},
      {"--threads", "0"},
      {"--layout", "0:4KiB"},
      {"--layout", "10:4"},
      {"--ram", "lots"},
      {"--queue-depth", "0"},
      {"--nodes"},
      {"--engine", ""},
      {"stray"},
      {"--config", "/nowhere/shoal.toml"},
      {"--nodes", "5000000000"},
  };
  for (const auto& arguments : wrong) EXPECT_NE(refusal(arguments), "") << arguments[0];
}

TEST(BenchOptions, HelpTeaches) {
  const CommandLine help = parse({"--help"});
  ASSERT_TRUE(help.print);
  for (const char* word : {"Examples", "--calibrate", "gossip-round", "shoal-mapped", "fio"}) {
    EXPECT_THAT(*help.print, testing::HasSubstr(word));
  }
}

}  // namespace
}  // namespace shoal::bench
