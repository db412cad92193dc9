// The equivalences between algorithms, and what theory says of them, on the quadratic oracle.
#include "trainer/algorithm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "store/error.h"
#include "tests/trainer/plain_population.h"
#include "trainer/quadratic.h"
#include "trainer/train_options.h"

namespace shoal {
namespace {

TrainOptions quadratic(const std::string& graph, NodeId nodes, const std::string& algorithm = "dpsgd") {
  TrainOptions options;
  options.model = "quadratic:20:1";
  options.graph = graph;
  options.nodes = nodes;
  options.algorithm = algorithm;
  options.learning_rate = 0.1;
  options.optimizer.momentum = 0;
  options.seed = 5;
  return options;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t k = 0; k < a.size(); ++k) largest = std::max(largest, std::abs(a[k] - b[k]));
  return largest;
}

double largest_difference(const PlainPopulation& a, const PlainPopulation& b) {
  double largest = 0;
  for (NodeId node = 0; node < a.records(); ++node) {
    for (std::size_t k = 0; k < a.experiment().layout->flat_size(); ++k) {
      largest = std::max(largest, static_cast<double>(std::abs(a.model(node)[k] - b.model(node)[k])));
    }
  }
  return largest;
}

QuadraticOptions oracle_of(const TrainOptions& options) { return parse_quadratic(options.model, options.seed); }

// Mean over nodes of the squared distance to the optimum of the mean objective.
double squared_error(const PlainPopulation& population) {
  const TrainOptions& options = population.experiment().options;
  const std::vector<double> optimum = quadratic_optimum(oracle_of(options), options.nodes);
  double sum = 0;
  for (NodeId record = 0; record < population.records(); ++record) {
    for (std::size_t k = 0; k < optimum.size(); ++k) {
      const double distance = static_cast<double>(population.model(record)[k]) - optimum[k];
      sum += distance * distance;
    }
  }
  return sum / population.records();
}

TEST(Algorithm, AnUnknownNameIsRefusedWithTheChoices) {
  const Team team;
  const TrainOptions options = quadratic("ring", 4);
  const NamedGraph graph = make_graph("ring", 4, 1);
  const std::vector<NodeId> order = locality_order(graph.graph);
  try {
    make_algorithm("sgdp", {options, graph.graph, order, team});
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), testing::HasSubstr("allreduce, dpsgd, gossip, local"));
  }
}

TEST(Algorithm, EachOneIsListedInTheHelp) {
  for (const std::string& name : algorithm_names()) EXPECT_THAT(algorithm_choices(), testing::HasSubstr(name));
}

TEST(Equivalences, AtcOnTheCompleteGraphIsAllreduceAndCtaIsNot) {
  for (const double momentum : {0.0, 0.9}) {
    SCOPED_TRACE(momentum);
    TrainOptions atc = quadratic("complete", 12);
    atc.optimizer.momentum = momentum;
    atc.order = DpsgdOrder::kAtc;
    TrainOptions cta = atc;
    cta.order = DpsgdOrder::kCta;
    TrainOptions allreduce = atc;
    allreduce.algorithm = "allreduce";
    PlainPopulation by_atc(atc);
    PlainPopulation by_cta(cta);
    PlainPopulation by_allreduce(allreduce);
    double cta_difference = 0;
    for (int round = 0; round < 10; ++round) {
      by_atc.run(1);
      by_cta.run(1);
      by_allreduce.run(1);
      EXPECT_LT(largest_difference(by_atc.mean(), by_allreduce.mean()), 5e-6) << "round " << round;
      cta_difference = std::max(cta_difference, largest_difference(by_cta.mean(), by_allreduce.mean()));
    }
    EXPECT_GT(cta_difference, 1e-3);
  }
}

TEST(Equivalences, LockStepGossipIsAtcWithUniformWeights) {
  for (const double momentum : {0.0, 0.9}) {
    SCOPED_TRACE(momentum);
    TrainOptions atc = quadratic("random-regular:4", 14);
    atc.optimizer.momentum = momentum;
    atc.order = DpsgdOrder::kAtc;
    atc.mixing = Mixing::kUniform;
    TrainOptions gossip = atc;
    gossip.algorithm = "gossip";
    gossip.gossip_every = {1, 1};
    gossip.gossip_own = 1.0 / 5;
    PlainPopulation by_atc(atc);
    PlainPopulation by_gossip(gossip);
    for (int round = 0; round < 12; ++round) {
      by_atc.run(1);
      by_gossip.run(1);
      EXPECT_LT(largest_difference(by_atc, by_gossip), 1e-5) << "round " << round;
    }
    gossip.gossip_own = 0.5;
    PlainPopulation other_weights(gossip);
    other_weights.run(12);
    EXPECT_GT(largest_difference(by_atc, other_weights), 1e-2);
  }
}

// What one node does alone, without any of the machinery of algorithms.
std::vector<float> train_alone(const TrainOptions& options, NodeId node, std::uint64_t steps) {
  const auto model = make_quadratic(oracle_of(options));
  const auto learner = model->make_learner();
  const auto optimizer = make_optimizer(options.optimizer);
  std::vector<float> x(model->flat_size());
  std::vector<float> gradient(x.size());
  std::vector<float> momentum(x.size(), 0);
  float* const slot = momentum.data();
  model->initialize(options.seed, options.init == InitialModels::kSame ? 0 : node, x.data(), nullptr);
  for (std::uint64_t step = 0; step < steps; ++step) {
    learner->gradient(node, step, {}, x.data(), nullptr, gradient.data());
    optimizer->apply({.base = x.data(),
                      .point = x.data(),
                      .gradient = gradient.data(),
                      .out = x.data(),
                      .slots = std::span(&slot, 1),
                      .size = x.size(),
                      .learning_rate = options.learning_rate,
                      .step = step + 1});
  }
  return x;
}

TEST(Equivalences, WithoutExchangeThereAreAsManyIndependentRunsAsNodes) {
  TrainOptions options = quadratic("ring", 6, "local");
  options.model = "quadratic:20:1:0.3";
  options.optimizer.momentum = 0.9;
  options.init = InitialModels::kIndependent;
  options.local_steps = 2;
  PlainPopulation population(options);
  population.run(5);
  for (NodeId node = 0; node < options.nodes; ++node) {
    const std::vector<float> alone = train_alone(options, node, 10);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), population.model(node))) << "node " << node;
  }
}

TEST(Equivalences, AGossipNodeThatNeverListensTrainsAlone) {
  TrainOptions options = quadratic("ring", 5, "gossip");
  options.gossip_every = {1, 1};
  options.gossip_own = 1;
  options.optimizer.momentum = 0.5;
  PlainPopulation population(options);
  population.run(6);
  for (NodeId node = 0; node < options.nodes; ++node) {
    const std::vector<float> alone = train_alone(options, node, 6);
    for (std::size_t k = 0; k < alone.size(); ++k) EXPECT_NEAR(population.model(node)[k], alone[k], 1e-6);
  }
}

TEST(Dpsgd, MovesTheMeanByTheMeanGradientWhereWeightsAreDoublyStochastic) {
  for (const char* graph : {"ring", "star", "barabasi-albert:2", "erdos-renyi:0.3"}) {
    SCOPED_TRACE(graph);
    TrainOptions options = quadratic(graph, 15);
    options.init = InitialModels::kIndependent;
    PlainPopulation population(options);
    for (int round = 0; round < 5; ++round) {
      std::vector<double> expected = population.mean();
      for (NodeId node = 0; node < options.nodes; ++node) {
        const QuadraticObjective objective = quadratic_objective(oracle_of(options), node);
        for (std::size_t k = 0; k < objective.a.size(); ++k) {
          const double slope = objective.a[k] * (static_cast<double>(population.model(node)[k]) - objective.b[k]);
          expected[k] -= options.learning_rate * slope / options.nodes;
        }
      }
      population.run(1);
      EXPECT_LT(largest_difference(population.mean(), expected), 1e-6) << "round " << round;
    }
  }
}

TEST(Dpsgd, WithoutLearningContractsTheDistanceByTheSpectralGapAndKeepsTheMean) {
  for (const char* graph : {"ring", "torus", "star", "random-regular:4", "watts-strogatz:4:0.3", "complete"}) {
    for (const DpsgdOrder order : {DpsgdOrder::kCta, DpsgdOrder::kAtc}) {
      SCOPED_TRACE(graph);
      TrainOptions options = quadratic(graph, 16);
      options.learning_rate = 0;
      options.init = InitialModels::kIndependent;
      options.order = order;
      PlainPopulation population(options);
      const double rho = 1 - statistics(population.experiment().graph(), options.mixing, 1).spectral_gap;
      const std::vector<double> mean = population.mean();
      double distance = population.consensus_distance();
      EXPECT_GT(distance, 1);
      for (int round = 0; round < 10; ++round) {
        population.run(1);
        const double now = population.consensus_distance();
        EXPECT_LE(now, rho * distance * 1.0001 + 1e-6) << "round " << round;
        distance = now;
      }
      EXPECT_LT(largest_difference(population.mean(), mean), 1e-6);
    }
  }
}

TEST(Dpsgd, UniformWeightsOnAnIrregularGraphDoNotKeepTheMean) {
  TrainOptions options = quadratic("star", 16);
  options.learning_rate = 0;
  options.init = InitialModels::kIndependent;
  options.mixing = Mixing::kUniform;
  PlainPopulation population(options);
  const std::vector<double> mean = population.mean();
  population.run(10);
  EXPECT_GT(largest_difference(population.mean(), mean), 0.01);
}

// One draw of heterogeneous quadratics gave 1.45, 0.76, 0.355 and 0.141 in double precision; this is another draw.
TEST(Dpsgd, OnARingIsBiasedByTheLearningRateAndAllreduceIsNot) {
  const std::vector<double> learning_rates = {0.2, 0.1, 0.05, 0.025};
  const std::vector<double> published = {1.45, 0.76, 0.355, 0.141};
  std::vector<double> errors;
  for (const double learning_rate : learning_rates) {
    TrainOptions options = quadratic("ring", 16);
    options.model = "quadratic:10:1";
    options.learning_rate = learning_rate;
    const auto rounds = static_cast<std::uint64_t>(60 / learning_rate);
    PlainPopulation ring(options);
    ring.run(rounds);
    errors.push_back(squared_error(ring));

    options.algorithm = "allreduce";
    PlainPopulation allreduce(options);
    allreduce.run(rounds);
    // Where a step is below half a unit in the last place, float32 stands still.
    EXPECT_LT(squared_error(allreduce), 10 * std::pow(0x1p-22 / learning_rate, 2)) << "learning rate " << learning_rate;
  }
  for (std::size_t i = 0; i < errors.size(); ++i) EXPECT_NEAR(errors[i], published[i], 0.2 * published[i]);
  for (std::size_t i = 0; i + 1 < errors.size(); ++i) {
    EXPECT_NEAR(errors[i] / errors[i + 1], published[i] / published[i + 1], 0.2);
  }
}

TEST(Gossip, NodesThatAreEqualStayEqualUnderAveraging) {
  TrainOptions options = quadratic("random-regular:4", 12, "gossip");
  options.learning_rate = 0;
  options.gossip_every = {2, 3};
  PlainPopulation population(options);
  const std::vector<float> first(population.model(0), population.model(0) + 20);
  population.run(20);
  for (NodeId node = 0; node < options.nodes; ++node) {
    for (std::size_t k = 0; k < first.size(); ++k) EXPECT_NEAR(population.model(node)[k], first[k], 1e-6);
  }
}

TEST(Gossip, EveryNodeTrainsOnceInEveryPeriod) {
  const Team team;
  TrainOptions options = quadratic("ring", 40, "gossip");
  options.gossip_every = {3, 5};
  const NamedGraph network = make_graph(options.graph, options.nodes, options.seed);
  const std::vector<NodeId> order = locality_order(network.graph);
  const auto algorithm = make_algorithm("gossip", {options, network.graph, order, team});
  std::vector<std::vector<std::uint64_t>> trained(options.nodes);
  std::vector<bool> trained_before(options.nodes, false);
  for (std::uint64_t round = 0; round < 60; ++round) {
    const RoundPlan plan = algorithm->plan(round);
    ASSERT_EQ(plan.local_steps.size(), plan.accesses->size());
    std::vector<bool> trains(options.nodes, false);
    std::vector<bool> acts(options.nodes, false);
    for (std::size_t k = 0; k < plan.accesses->size(); ++k) {
      const NodeId node = plan.accesses->node(k);
      EXPECT_FALSE(acts[node]);
      acts[node] = true;
      if (plan.local_steps[k] > 0) {
        trained[node].push_back(round);
        trains[node] = true;
      }
    }
    // What was sent in the round before is read now, by all neighbours and nobody else.
    for (std::size_t k = 0; k < plan.accesses->size(); ++k) {
      std::vector<NodeId> senders;
      for (const NodeId neighbour : network.graph.neighbours(plan.accesses->node(k))) {
        if (trained_before[neighbour]) senders.push_back(neighbour);
      }
      const auto reads = plan.accesses->reads(k);
      EXPECT_TRUE(std::equal(reads.begin(), reads.end(), senders.begin(), senders.end()));
      EXPECT_TRUE(!senders.empty() || plan.local_steps[k] > 0);
    }
    trained_before = trains;
  }
  std::vector<std::uint64_t> gaps;
  for (const auto& rounds : trained) {
    ASSERT_GE(rounds.size(), 10U);
    EXPECT_LT(rounds.front(), 3U);
    for (std::size_t i = 0; i + 1 < rounds.size(); ++i) gaps.push_back(rounds[i + 1] - rounds[i]);
  }
  for (const std::uint64_t gap : gaps) EXPECT_TRUE(gap >= 3 && gap <= 5) << gap;
  for (const std::uint64_t gap : {3U, 4U, 5U}) EXPECT_GT(std::count(gaps.begin(), gaps.end(), gap), 50);
}

}  // namespace
}  // namespace shoal
