// The promise, on several ranks: the same bits as on one, whatever way the neighbours' models come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/e2e/program.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

struct Case {
  const char* name;
  Arguments arguments;
  bool one_record = false;  // for all nodes, which every rank keeps
};

const std::vector<Case> kCases = {
    {"Cta",
     {"--graph", "random-regular:4", "--optimizer", "adam", "--lr", "0.001", "--partition", "dirichlet:0.3", "--rounds",
      "3"}},
    {"Atc",
     {"--graph", "watts-strogatz:4:0.2", "--order", "atc", "--local-steps", "2", "--init", "independent", "--rounds",
      "3"}},
    {"Gossip", {"--graph", "barabasi-albert:3", "--algorithm", "gossip", "--gossip-every", "2-4", "--rounds", "6"}},
    {"Allreduce", {"--graph", "ring", "--algorithm", "allreduce", "--local-steps", "2", "--rounds", "3"}, true},
};

const Arguments kPlenty = {"--ram", "256MiB"};
// The least that rank 0 needs is what the summary tells; another rank's share may need a little more.
constexpr std::uint64_t kSlack = 64 << 10;

class SameBitsOnRanks : public testing::TestWithParam<std::size_t> {
 protected:
  SameBitsOnRanks() {
    write_small_mnist(here_.path() / "mnist", 400, 64);
    run(1, kPlenty, "one");
  }

  const Case& test() const { return kCases[GetParam()]; }

  nlohmann::json run(unsigned ranks, const Arguments& how, const fs::path& out) const {
    const Arguments common = {"--quiet",
                              "--model",
                              "mlp:784-16-10",
                              "--data",
                              "mnist:mnist",
                              "--batch",
                              "4",
                              "--threads",
                              "1",
                              "--nodes",
                              "84",
                              "--seed",
                              "3",
                              "--eval-every",
                              "2",
                              "--eval-samples",
                              "32"};
    return run_to_summary(common + test().arguments + how, here_.path(), out, on_ranks(ranks));
  }

  // The same results as on one rank, with as little RAM as `plenty`, a run on as many ranks, says is possible.
  nlohmann::json run_with_little(unsigned ranks, const nlohmann::json& plenty, const Arguments& how) const {
    const std::uint64_t least = plenty["least_ram_bytes"].get<std::uint64_t>() + kSlack;
    const auto little = run(ranks, how + Arguments{"--ram", std::to_string(least), "--overwrite"}, "little");
    if (little.is_object()) expect_same_results(here_.path() / "little", here_.path() / "one");
    return little;
  }

  TemporaryDirectory here_;
};

TEST_P(SameBitsOnRanks, WithAllInRamAndWithLittle) {
  for (const unsigned ranks : {2U, 4U, 7U}) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    const auto plenty = run(ranks, kPlenty + Arguments{"--overwrite"}, "plenty");
    ASSERT_TRUE(plenty.is_object());
    expect_same_results(here_.path() / "plenty", here_.path() / "one");
    EXPECT_EQ(plenty["ranks"], ranks);
    EXPECT_EQ(plenty["per_rank"].size(), ranks);
    EXPECT_EQ(plenty["bytes_read"], 0) << "there was RAM for all of it";
    const auto little = run_with_little(ranks, plenty, {});
    ASSERT_TRUE(little.is_object());
    if (test().one_record) continue;

    // A model that several nodes of a rank read comes once, and through the mapping; or by request, where its owner
    // was still at the end of the round before.
    EXPECT_GT(plenty["remote"]["shared_memory_bytes"], 0);
    EXPECT_EQ(plenty["remote"]["one_sided_bytes"], 0);
    EXPECT_EQ(plenty["remote"]["bytes"], plenty["remote"]["lower_bound_bytes"]);
    EXPECT_EQ(plenty["remote_bytes"], plenty["remote"]["bytes"]);
    EXPECT_GT(little["bytes_read"], 0) << "it was meant to be too little RAM";
    EXPECT_GT(little["remote"]["requested_bytes"], 0);
    EXPECT_EQ(little["remote"]["one_sided_bytes"], 0);
  }
}

TEST_P(SameBitsOnRanks, WithModelsReadOneSided) {
  const Arguments one_sided = {"--neighbour-reads", "one-sided"};
  for (const unsigned ranks : {2U, 4U}) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    const auto plenty = run(ranks, kPlenty + one_sided + Arguments{"--overwrite"}, "plenty");
    ASSERT_TRUE(plenty.is_object());
    expect_same_results(here_.path() / "plenty", here_.path() / "one");
    if (test().one_record) continue;
    EXPECT_GT(plenty["remote"]["one_sided_bytes"], 0);
    EXPECT_EQ(plenty["remote"]["shared_memory_bytes"], 0);
    EXPECT_EQ(plenty["remote"]["bytes"], plenty["remote"]["lower_bound_bytes"]);
    const auto little = run_with_little(ranks, plenty, one_sided);
    ASSERT_TRUE(little.is_object());
    EXPECT_GT(little["bytes_read"], 0);
    EXPECT_GT(little["remote"]["requested_bytes"], 0);
    EXPECT_EQ(little["remote"]["shared_memory_bytes"], 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SameBitsOnRanks, testing::Range<std::size_t>(0, kCases.size()),
                         [](const auto& test) { return kCases[test.param].name; });

class MemoryOnRanks : public testing::Test {
 protected:
  TemporaryDirectory here_;
};

TEST_F(MemoryOnRanks, DoesNotGrowWithTheRounds) {
  const auto peaks = [&](const std::string& rounds) {
    const auto summary = run_to_summary({"--quiet", "--model", "quadratic:2000", "--nodes", "40", "--graph",
                                         "random-regular:4", "--threads", "1", "--ram", "64MiB", "--rounds", rounds},
                                        here_.path(), rounds, on_ranks(2));
    std::vector<std::uint64_t> bytes;
    for (const nlohmann::json& rank : summary["per_rank"]) bytes.push_back(rank["peak_rss_bytes"]);
    return bytes;
  };
  const auto few = peaks("50");
  const auto many = peaks("500");
  ASSERT_EQ(few.size(), 2U);
  ASSERT_EQ(many.size(), 2U);
  for (std::size_t rank = 0; rank < 2; ++rank) EXPECT_LT(many[rank], few[rank] + (4 << 20)) << "rank " << rank;
}

}  // namespace
}  // namespace shoal
