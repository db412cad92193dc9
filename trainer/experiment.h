// Everything that the options name, made: network, data, model, optimizer, algorithm. Nothing is written.
#pragma once

#include <memory>
#include <vector>

#include "trainer/algorithm.h"
#include "trainer/data_set.h"
#include "trainer/graph.h"
#include "trainer/model.h"
#include "trainer/node_layout.h"
#include "trainer/optimizer.h"
#include "trainer/partition.h"
#include "trainer/sampler.h"
#include "trainer/train_options.h"

namespace shoal {

struct Experiment {
  // Throws Error for anything in the options that cannot be. What another experiment has made already, and is the same
  // here, is shared with it.
  explicit Experiment(const TrainOptions& options, Team team = {}, const Experiment* like = nullptr);
  Experiment(const Experiment&) = delete;

  TrainOptions options;  // with the number of nodes that the graph has
  Team team;
  std::shared_ptr<const NamedGraph> shared_network;
  std::shared_ptr<const std::vector<NodeId>> shared_order;
  const NamedGraph& network;
  const std::vector<NodeId>& order;
  std::shared_ptr<const DataSet> data;  // these three are null for a model that needs no data
  std::unique_ptr<Partition> partition;
  std::unique_ptr<Sampler> sampler;
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Algorithm> algorithm;
  std::unique_ptr<NodeLayout> layout;

  const Graph& graph() const { return network.graph; }
  // Local steps of a round, of the nodes that one of the ranks computes; `plan` has its records.
  std::uint64_t node_steps(const RoundPlan& plan, unsigned rank, unsigned ranks) const;
  // The public payload that all nodes start from (InitialModels::kSame), and the reference of all sums.
  std::vector<std::byte> first_state() const;
};

}  // namespace shoal
