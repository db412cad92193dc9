#include "trainer/experiment.h"

#include <algorithm>
#include <utility>

namespace shoal {

Experiment::Experiment(const TrainOptions& given, Team ranks)
    : options(given), team(std::move(ranks)), network(make_graph(given.graph, given.nodes, given.seed)) {
  options.nodes = network.graph.nodes();
  options.eval_nodes = std::min(options.eval_nodes, options.nodes);
  order = locality_order(network.graph);

  ModelOptions model_options;
  model_options.spec = options.model;
  model_options.seed = options.seed;
  model_options.device = options.device;
  const bool own_data = options.model.starts_with("quadratic");
  if (!own_data) model_options.data = data_set_shape(options.data);
  model = make_model(model_options);
  if (model->needs_data()) {
    data = open_data_set(options.data, options.seed);
    partition = make_partition(options.partition, *data, options.nodes, options.seed);
    sampler = std::make_unique<Sampler>(*data, *partition, options.batch, options.augment, options.seed);
  }
  optimizer = make_optimizer(options.optimizer);
  algorithm = make_algorithm(options.algorithm, {options, network.graph, order, team});
  layout = std::make_unique<NodeLayout>(*model, optimizer->slots(), algorithm->slots());
}

std::vector<std::byte> Experiment::first_state() const {
  std::vector<std::byte> state(layout->state().payload_bytes(Part::kPublic));
  model->initialize(options.seed, 0, layout->parameters(state.data()), layout->buffers(state.data()));
  return state;
}

}  // namespace shoal
