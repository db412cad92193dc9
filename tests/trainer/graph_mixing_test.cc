#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "store/error.h"
#include "trainer/graph.h"
#include "trainer/spectral_gap.h"

namespace shoal {
namespace {

const std::vector<std::pair<std::string, NodeId>> kGraphs = {
    {"ring", 1},
    {"ring", 2},
    {"ring", 9},
    {"star", 1000},
    {"complete", 30},
    {"torus", 20},
    {"exponential", 24},
    {"random-regular:8", 100},
    {"hypercube", 32},
    {"ring-lattice:6", 31},
    {"erdos-renyi:0.1", 80},
    {"barabasi-albert:3", 300},
};

std::vector<std::vector<float>> matrix(const Graph& graph, Mixing mixing) {
  std::vector<std::vector<float>> rows(graph.nodes(), std::vector<float>(graph.nodes()));
  for (NodeId i = 0; i < graph.nodes(); ++i) {
    std::vector<float> weights(graph.degree(i) + 1);
    mixing_weights(graph, mixing, i, weights);
    rows[i][i] = weights[0];
    for (std::size_t k = 0; k + 1 < weights.size(); ++k) rows[i][graph.neighbours(i)[k]] = weights[k + 1];
  }
  return rows;
}

TEST(MixingWeights, OfMetropolisAreSymmetricPositiveAndDoublyStochastic) {
  for (const auto& [spec, nodes] : kGraphs) {
    SCOPED_TRACE(spec);
    const auto w = matrix(make_graph(spec, nodes, 1).graph, Mixing::kMetropolis);
    for (NodeId i = 0; i < nodes; ++i) {
      double row = 0;
      double column = 0;
      for (NodeId j = 0; j < nodes; ++j) {
        EXPECT_EQ(w[i][j], w[j][i]) << "the same bits at both ends";
        EXPECT_GE(w[i][j], 0);
        row += static_cast<double>(w[i][j]);
        column += static_cast<double>(w[j][i]);
      }
      EXPECT_GT(w[i][i], 0);
      EXPECT_NEAR(row, 1, 6e-8);
      EXPECT_NEAR(column, 1, 6e-8);
    }
  }
}

TEST(MixingWeights, OfUniformAreOneShareForEach) {
  const Graph graph = make_graph("star", 5, 1).graph;
  const auto w = matrix(graph, Mixing::kUniform);
  for (NodeId j = 0; j < 5; ++j) EXPECT_FLOAT_EQ(w[0][j], 0.2f);
  EXPECT_FLOAT_EQ(w[3][0], 0.5f);
  EXPECT_FLOAT_EQ(w[3][3], 0.5f);
  for (const auto& [spec, nodes] : kGraphs) {
    for (const auto& row : matrix(make_graph(spec, nodes, 1).graph, Mixing::kUniform)) {
      double sum = 0;
      for (const float weight : row) sum += static_cast<double>(weight);
      EXPECT_NEAR(sum, 1, 6e-8);
    }
  }
}

double gap(const std::string& spec, NodeId nodes, Mixing mixing = Mixing::kMetropolis) {
  const GraphStatistics found = statistics(make_graph(spec, nodes, 1).graph, mixing, 1);
  EXPECT_FALSE(found.spectral_gap_is_bound) << spec;
  return found.spectral_gap;
}

double lattice_gap(NodeId nodes, std::uint32_t degree) {
  double sum = 1;
  for (std::uint32_t s = 1; s <= degree / 2; ++s) sum += 2 * std::cos(2 * std::numbers::pi * s / nodes);
  return 1 - std::abs(sum) / (degree + 1);
}

TEST(SpectralGap, AgreesWithTheClosedForms) {
  EXPECT_NEAR(gap("ring", 16), 0.050747, 1e-6);
  EXPECT_NEAR(gap("ring", 64), 0.003210, 1e-6);
  EXPECT_NEAR(gap("torus", 16), 0.4, 1e-6);
  EXPECT_NEAR(gap("torus", 64), 0.117157, 1e-6);
  EXPECT_NEAR(gap("hypercube", 16), 0.4, 1e-6);
  EXPECT_NEAR(gap("hypercube", 64), 2.0 / 7, 1e-6);
  EXPECT_NEAR(gap("star", 16), 1.0 / 16, 1e-6);
  EXPECT_NEAR(gap("star", 64), 1.0 / 64, 1e-6);
  EXPECT_NEAR(gap("complete", 16), 1, 1e-9);
  EXPECT_NEAR(gap("ring-lattice:4", 16), 0.147605, 1e-6);
  EXPECT_NEAR(gap("ring-lattice:8", 16), 0.441407, 1e-6);
  EXPECT_NEAR(gap("ring", 1), 1, 1e-9);
  EXPECT_NEAR(gap("ring", 2), 1, 1e-9);
  for (const NodeId nodes : {NodeId{3}, NodeId{10}, NodeId{101}, NodeId{1000}}) {
    EXPECT_NEAR(gap("ring", nodes) / lattice_gap(nodes, 2), 1, 1e-4) << nodes;
  }
  EXPECT_NEAR(gap("ring-lattice:6", 500) / lattice_gap(500, 6), 1, 1e-4);
}

TEST(SpectralGap, OfUniformWeightsIsThatOfMetropolisOnRegularGraphs) {
  for (const std::string spec : {"ring", "hypercube", "random-regular:6"}) {
    EXPECT_NEAR(gap(spec, 64, Mixing::kUniform), gap(spec, 64), 1e-6) << spec;
  }
  // The star's eigenvalues are 1, 1/2 (n - 2 times) and (1/n - 1/2): by hand.
  EXPECT_NEAR(gap("star", 10, Mixing::kUniform), 0.5, 1e-6);
}

TEST(SpectralGap, IsMeasuredByWhatMixingForgets) {
  // The slowest mode dies like (1 - gap)^t: an independent look at an irregular graph.
  constexpr NodeId kNodes = 60;
  const Graph graph = make_graph("barabasi-albert:2", kNodes, 1).graph;
  const auto w = matrix(graph, Mixing::kMetropolis);
  std::vector<double> x(kNodes);
  for (NodeId i = 0; i < kNodes; ++i) x[i] = i % 7 - 3.0;
  double before = 0;
  double after = 0;
  for (int round = 0; round < 1000; ++round) {
    std::vector<double> y(kNodes);
    double mean = 0;
    for (NodeId i = 0; i < kNodes; ++i) {
      for (NodeId j = 0; j < kNodes; ++j) y[i] += static_cast<double>(w[i][j]) * x[j];
      mean += y[i] / kNodes;
    }
    before = 0;
    after = 0;
    for (NodeId i = 0; i < kNodes; ++i) {
      y[i] -= mean;
      before += x[i] * x[i];
      after += y[i] * y[i];
    }
    for (NodeId i = 0; i < kNodes; ++i) x[i] = y[i] / std::sqrt(after);
  }
  EXPECT_NEAR(1 - std::sqrt(after / before), gap("barabasi-albert:2", kNodes), 1e-5);
}

TEST(SpectralGap, IsABoundWhenWorkRunsOutAndStillRightForARing) {
  constexpr NodeId kNodes = 5000;
  const Graph ring = make_graph("ring", kNodes, 1).graph;
  std::vector<std::uint32_t> levels(kNodes);
  for (NodeId i = 0; i < kNodes; ++i) levels[i] = std::min(i, kNodes - i);
  const SpectralGap found = spectral_gap(ring, Mixing::kMetropolis, 1, levels, 1e6);
  EXPECT_TRUE(found.is_bound);
  EXPECT_NEAR(found.gap / lattice_gap(kNodes, 2), 1, 1e-6);
  // Nothing to see along the length: only what the steps have found, which is above the true gap.
  const SpectralGap blind = spectral_gap(ring, Mixing::kMetropolis, 1, std::vector<std::uint32_t>(kNodes, 1), 1e6);
  EXPECT_TRUE(blind.is_bound);
  EXPECT_GT(blind.gap, lattice_gap(kNodes, 2));
}

TEST(Statistics, CountDegreesAndMeasureTheDiameter) {
  const GraphStatistics star = statistics(make_graph("star", 11, 1).graph, Mixing::kMetropolis, 1);
  EXPECT_EQ(star.edges, 10u);
  EXPECT_EQ(star.least_degree, 1u);
  EXPECT_EQ(star.largest_degree, 10u);
  EXPECT_NEAR(star.mean_degree, 20.0 / 11, 1e-12);
  EXPECT_EQ(star.diameter_estimate, 2u);
  EXPECT_TRUE(star.connected);
  const auto diameter = [](const std::string& spec, NodeId nodes) {
    return statistics(make_graph(spec, nodes, 1).graph, Mixing::kMetropolis, 1).diameter_estimate;
  };
  EXPECT_EQ(diameter("ring", 100), 50u);
  EXPECT_EQ(diameter("torus", 100), 10u);
  EXPECT_EQ(diameter("hypercube", 64), 6u);
  EXPECT_EQ(diameter("complete", 10), 1u);
  EXPECT_EQ(diameter("ring", 1), 0u);
}

TEST(Statistics, TellAGraphInPiecesAndAnEmptyOne) {
  const GraphStatistics pieces = statistics(Graph(4, {{0, 1}, {2, 3}}), Mixing::kMetropolis, 1);
  EXPECT_FALSE(pieces.connected);
  EXPECT_EQ(pieces.spectral_gap, 0);
  EXPECT_EQ(statistics(Graph(), Mixing::kMetropolis, 1).edges, 0u);
}

TEST(Statistics, AreTheSameEveryTime) {
  const Graph graph = make_graph("erdos-renyi:0.05", 300, 1).graph;
  EXPECT_EQ(statistics(graph, Mixing::kMetropolis, 5).spectral_gap,
            statistics(graph, Mixing::kMetropolis, 5).spectral_gap);
}

}  // namespace
}  // namespace shoal
