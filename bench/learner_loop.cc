#include <chrono>
#include <thread>
#include <vector>

#include "bench/bare_loop.h"
#include "trainer/model.h"
#include "trainer/optimizer.h"
#include "trainer/sampler.h"

namespace shoal::bench {
namespace {

// One model's memory: parameters and buffers, then the optimizer's slots.
struct InRam {
  std::vector<float> parameters;
  std::vector<std::byte> buffers;
  std::vector<std::vector<float>> slots;
};

}  // namespace

double learner_loop(const BareLoopOptions& options) {
  prepare_tensor_library(1);
  const auto data = open_data_set(options.data, 1);
  const auto partition = make_partition("iid", *data, options.nodes, 1);
  const Sampler sampler(*data, *partition, options.batch, Augmentation::kNone, 1);
  const auto model =
      make_model({.spec = options.model, .data = data_set_shape(options.data), .seed = 1, .device = "cpu"});
  const auto optimizer = make_optimizer({.name = options.optimizer});
  std::vector<InRam> nodes(options.nodes);
  for (InRam& node : nodes) {
    node.parameters.resize(model->flat_size());
    node.buffers.resize(model->buffers_bytes());
    model->initialize(1, 0, node.parameters.data(), node.buffers.data());
    node.slots.assign(optimizer->slots().size(), std::vector<float>(model->flat_size()));
  }

  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> workers;
  for (unsigned worker = 0; worker < options.threads; ++worker) {
    workers.emplace_back([&, worker] {
      prepare_worker_thread(1);
      const auto learner = model->make_learner();
      std::vector<float> gradient(model->flat_size());
      Batch batch;
      for (unsigned round = 0; round < options.rounds; ++round) {
        for (NodeId i = worker; i < options.nodes; i += options.threads) {
          InRam& node = nodes[i];
          sampler.draw(i, round, batch);
          learner->gradient(i, round, batch, node.parameters.data(), node.buffers.data(), gradient.data());
          std::vector<float*> slots;
          for (auto& slot : node.slots) slots.push_back(slot.data());
          optimizer->apply({node.parameters.data(), node.parameters.data(), gradient.data(), node.parameters.data(),
                            slots, gradient.size(), options.learning_rate, round + 1});
        }
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return options.nodes * options.rounds / seconds;
}

}  // namespace shoal::bench
