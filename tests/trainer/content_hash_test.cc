#include "trainer/content_hash.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

using Hashes = std::map<std::string, std::string>;

Hashes hashes_of(const std::string& graph, const std::string& model, NodeId nodes = 0) {
  TrainOptions options;
  options.graph = graph;
  options.model = model;
  options.nodes = nodes;
  options.threads = 1;
  return content_hashes(Experiment(options));
}

TEST(ContentHash, OfAGraphDependsOnItsEdgesNotOnHowTheFileIsWritten) {
  const TemporaryDirectory folder;
  const std::string spec = "file:" + (folder.path() / "edges.txt").string();
  const auto with = [&](const char* edges) {
    std::ofstream(folder.path() / "edges.txt") << edges;
    return hashes_of(spec, "quadratic:8").at("graph");
  };
  const std::string first = with("0 1\n1 2\n2 3\n");
  EXPECT_EQ(with("# a comment\n0 1\n1 2\n2 3\n1 0\n"), first);
  EXPECT_NE(with("0 1\n1 2\n2 3\n3 0\n"), first);
  EXPECT_NE(with("0 1\n1 2\n1 3\n"), first);
}

TEST(ContentHash, IsOfWhatTheRunReadsOnly) {
  EXPECT_EQ(hashes_of("ring", "quadratic:8", 8).count("data"), 0U);
  const Hashes images = hashes_of("ring", "mlp:784-10", 8);
  EXPECT_EQ(images.count("data"), 1U);
  EXPECT_EQ(images.count("model"), 0U);
}

TEST(ContentHash, OfOwnersTellsSplitsApart) {
  TrainOptions options;
  options.graph = "ring";
  options.model = "quadratic:8";
  options.nodes = 6;
  const Experiment experiment(options);
  const auto hash = [&](std::vector<std::uint16_t> owner) {
    return owners_hash(Share(experiment.graph(), {std::move(owner), 2, {}}, 0), 6);
  };
  EXPECT_EQ(owners_hash(Share(6), 6), "");
  EXPECT_EQ(hash({0, 0, 0, 1, 1, 1}), hash({0, 0, 0, 1, 1, 1}));
  EXPECT_NE(hash({0, 0, 0, 1, 1, 1}), hash({0, 0, 1, 0, 1, 1}));
}

}  // namespace
}  // namespace shoal
