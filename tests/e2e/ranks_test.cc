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
    {"Gossip", {"--graph", "watts-strogatz:4:0.5", "--algorithm", "gossip", "--gossip-every", "2-4", "--rounds", "6"}},
    {"Allreduce", {"--graph", "ring", "--algorithm", "allreduce", "--local-steps", "2", "--rounds", "3"}, true},
};

const Arguments kPlenty = {"--ram", "256MiB"};
// The least that rank 0 needs is what the summary tells; another rank's share may need a little more.
constexpr std::uint64_t kSlack = 16 << 10;

class SameBitsOnRanks : public testing::TestWithParam<std::size_t> {
 protected:
  SameBitsOnRanks() {
    write_small_mnist(here_.path() / "mnist", 400, 64);
    one_ = run(1, kPlenty, "one");
  }

  const Case& test() const { return kCases[GetParam()]; }

  nlohmann::json run(unsigned ranks, const Arguments& how, const fs::path& out) const {
    // So many of so small a model that a sixteenth of what one of seven ranks has is more than the least arena, also
    // where its nodes have more to do than others and are fewer.
    const Arguments common = {"--quiet",
                              "--model",
                              "mlp:784-2-10",
                              "--data",
                              "mnist:mnist",
                              "--batch",
                              "4",
                              "--threads",
                              "1",
                              "--nodes",
                              "960",
                              "--seed",
                              "3",
                              "--eval-every",
                              "2",
                              "--eval-samples",
                              "32",
                              "--eval-nodes",
                              "8"};
    return run_to_summary(common + test().arguments + how, here_.path(), out, on_ranks(ranks));
  }

  static std::uint64_t state_bytes(const nlohmann::json& summary) {
    return summary["nodes"].get<std::uint64_t>() * summary["state_bytes_per_node"].get<std::uint64_t>();
  }

  // The same results as on one rank with plenty, with RAM for a sixteenth of each rank's records: the least that
  // `plenty`, a run on as many ranks, says is possible.
  nlohmann::json run_with_little(unsigned ranks, const nlohmann::json& plenty, const Arguments& how) const {
    const std::uint64_t least = plenty["least_ram_bytes"].get<std::uint64_t>() + kSlack;
    const auto little = run(ranks, how + Arguments{"--ram", std::to_string(least), "--overwrite"}, "little");
    if (!little.is_object()) return little;
    expect_same_results(here_.path() / "little", here_.path() / "one");
    if (test().one_record) return little;
    const auto arena = little["memory"]["arena"].get<std::uint64_t>();
    const auto record = little["state_bytes_per_node"].get<std::uint64_t>();
    const auto ranks_and_nodes = little.value("per_rank", nlohmann::json::array({little}));
    for (const auto& rank : ranks_and_nodes) EXPECT_LE(16 * arena, rank["nodes"].get<std::uint64_t>() * record);
    EXPECT_GT(little["bytes_read"], 0);
    return little;
  }

  TemporaryDirectory here_;
  nlohmann::json one_;
};

TEST_P(SameBitsOnRanks, WithAllInRamAndWithASixteenth) {
  ASSERT_TRUE(one_.is_object());
  EXPECT_EQ(one_["bytes_read"], 0) << "there was RAM for all of it";
  ASSERT_TRUE(run_with_little(1, one_, {}).is_object());
  for (const unsigned ranks : {2U, 4U, 7U}) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    const auto plenty = run(ranks, kPlenty + Arguments{"--overwrite"}, "plenty");
    ASSERT_TRUE(plenty.is_object());
    expect_same_results(here_.path() / "plenty", here_.path() / "one");
    EXPECT_EQ(plenty["ranks"], ranks);
    EXPECT_EQ(plenty["per_rank"].size(), ranks);
    // Next to nothing: where an owner is late, copies are fetched ahead, and a few records may have to make room.
    EXPECT_LT(16 * plenty["bytes_read"].get<std::uint64_t>(), state_bytes(plenty)) << "there was RAM for all of it";
    const auto little = run_with_little(ranks, plenty, {});
    ASSERT_TRUE(little.is_object());
    if (test().one_record) continue;

    // A model that several nodes of a rank read comes once, and through the mapping; or by request, where its owner
    // was still at the end of the round before.
    EXPECT_GT(plenty["remote"]["shared_memory_bytes"], 0);
    EXPECT_EQ(plenty["remote"]["one_sided_bytes"], 0);
    EXPECT_EQ(plenty["remote"]["bytes"], plenty["remote"]["lower_bound_bytes"]);
    EXPECT_EQ(plenty["remote_bytes"], plenty["remote"]["bytes"]);
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
  const auto run = [&](const std::string& rounds, const std::string& ram) {
    return run_to_summary({"--quiet", "--model", "quadratic:2000", "--nodes", "40", "--graph", "random-regular:4",
                           "--threads", "1", "--ram", ram, "--rounds", rounds, "--overwrite"},
                          here_.path(), "run", on_ranks(2));
  };
  const auto one = run("1", "64MiB");
  ASSERT_TRUE(one.is_object());
  const std::string little = std::to_string(one["least_ram_bytes"].get<std::uint64_t>() + kSlack);
  for (const std::string& ram : {std::string("64MiB"), little}) {
    SCOPED_TRACE("--ram " + ram);
    const auto few = run("50", ram);
    const auto many = run("500", ram);
    ASSERT_TRUE(few.is_object() && many.is_object());
    for (const unsigned rank : {0U, 1U}) {
      EXPECT_LT(many["per_rank"][rank]["peak_rss_bytes"].get<std::uint64_t>(),
                few["per_rank"][rank]["peak_rss_bytes"].get<std::uint64_t>() + (4 << 20))
          << "rank " << rank;
    }
    if (ram != little) continue;
    EXPECT_GT(many["bytes_read"], 0);
    EXPECT_GT(many["remote"]["requested_bytes"], 0);
  }
}

// A rank's share of the state is 117 MiB; what LibTorch, MPI and the code take beside --ram is about 170 MiB.
TEST_F(MemoryOnRanks, StaysWithinRamAndAConstantOnEachOfThem) {
  constexpr std::uint64_t kRam = 24 << 20;
  const auto result =
      run_to_summary({"--quiet", "--model", "quadratic:50000", "--nodes", "1200", "--graph", "random-regular:4",
                      "--threads", "1", "--ram", std::to_string(kRam), "--rounds", "2"},
                     here_.path(), "run", on_ranks(4));
  ASSERT_TRUE(result.is_object());
  EXPECT_GT(result["bytes_read"], 0);
  EXPECT_GT(result["remote"]["requested_bytes"], 0);
  ASSERT_EQ(result["per_rank"].size(), 4U);
  for (const auto& rank : result["per_rank"]) {
    EXPECT_LT(rank["peak_rss_bytes"].get<std::uint64_t>(), kRam + (200 << 20)) << "rank " << rank["rank"];
  }
}

}  // namespace
}  // namespace shoal
