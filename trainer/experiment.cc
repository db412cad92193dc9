#include "trainer/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "store/error.h"
#include "trainer/lenet5_learner.h"

namespace shoal {

namespace {

bool same_network(const TrainOptions& options, const Experiment* like) {
  if (like == nullptr || options.graph != like->options.graph || options.seed != like->options.seed) return false;
  return options.nodes == like->options.nodes || options.nodes == 0;
}

std::shared_ptr<const DataSet> data_of(const TrainOptions& options, const Experiment* like) {
  const bool same =
      like != nullptr && like->data && options.data == like->options.data && options.seed == like->options.seed;
  return same ? like->data : open_data_set(options.data, options.seed);
}

// These refuse what would be ignored.
void require_no_data(const TrainOptions& options) {
  const TrainOptions standard;
  std::string given;
  const auto compare = [&](const char* flag, bool same) {
    if (!same) given += fmt::format("{}{}", given.empty() ? "" : ", ", flag);
  };
  compare("--data", options.data == standard.data);
  compare("--partition", options.partition == standard.partition);
  compare("--batch", options.batch == standard.batch);
  compare("--augment", options.augment == standard.augment);
  if (given.empty()) return;
  throw Error(fmt::format("--model {} makes its own data; leave out {}", options.model, given), ExitCode::kUsage);
}

void require_threads_within_a_step(const TrainOptions& options, const Model& model) {
  const bool by_hand = options.model == "lenet5" && options.device == "cpu" &&
                       LeNet5Learner::can_learn(data_set_shape(options.data).image);
  if (options.intra_op == 1 || (model.needs_data() && !by_hand)) return;
  throw Error(fmt::format("--intra-op {}: a step of --model {} is the work of one thread; leave it out, and more nodes "
                          "are trained at the same time",
                          options.intra_op, options.model),
              ExitCode::kUsage);
}

// An algorithm with one model for all is no reason: --init may stay as it is while algorithms are compared.
void require_models_that_differ(const TrainOptions& options) {
  if (options.init == InitialModels::kSame || !options.model.starts_with("script:")) return;
  throw Error(fmt::format("--init independent: all nodes of --model {} start from the file's weights", options.model),
              ExitCode::kUsage);
}

}  // namespace

Experiment::Experiment(const TrainOptions& given, Team ranks, const Experiment* like)
    : options(given),
      team(std::move(ranks)),
      shared_network(same_network(given, like)
                         ? like->shared_network
                         : std::make_shared<const NamedGraph>(make_graph(given.graph, given.nodes, given.seed))),
      shared_order(same_network(given, like)
                       ? like->shared_order
                       : std::make_shared<const std::vector<NodeId>>(locality_order(shared_network->graph))),
      network(*shared_network),
      order(*shared_order) {
  options.nodes = network.graph.nodes();
  options.eval_nodes = std::min(options.eval_nodes, options.nodes);

  ModelOptions model_options;
  model_options.spec = options.model;
  model_options.seed = options.seed;
  model_options.device = options.device;
  model_options.data = data_set_shape(options.data);
  model = make_model(model_options);
  if (!model->needs_data()) require_no_data(options);
  require_threads_within_a_step(options, *model);
  if (model->needs_data()) {
    data = data_of(options, like);
    partition = make_partition(options.partition, *data, options.nodes, options.seed);
    sampler = std::make_unique<Sampler>(*data, *partition, options.batch, options.augment, options.seed);
  }
  optimizer = make_optimizer(options.optimizer);
  algorithm = make_algorithm({options, network.graph, order, team});
  require_models_that_differ(options);
  layout = std::make_unique<NodeLayout>(*model, optimizer->slots(), algorithm->slots(), algorithm->scalars().size());
}

std::uint64_t Experiment::node_steps(const RoundPlan& plan, unsigned rank, unsigned ranks) const {
  if (!plan.local_steps.empty()) {
    return std::accumulate(plan.local_steps.begin(), plan.local_steps.end(), std::uint64_t{0});
  }
  if (algorithm->records() == options.nodes) return plan.accesses->size() * options.local_steps;
  // One record stands for all nodes, and each of them computes on one of the ranks.
  const std::uint64_t nodes = options.nodes;
  return (nodes * (rank + 1) / ranks - nodes * rank / ranks) * options.local_steps;
}

std::vector<std::byte> Experiment::first_state() const {
  std::vector<std::byte> state(layout->state().payload_bytes(Part::kPublic));
  model->initialize(options.seed, 0, layout->parameters(state.data()), layout->buffers(state.data()));
  return state;
}

}  // namespace shoal
