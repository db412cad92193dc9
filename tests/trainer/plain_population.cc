#include "tests/trainer/plain_population.h"

#include <oneapi/tbb/task_arena.h>

#include <cmath>
#include <cstring>

#include "trainer/state_hash.h"

namespace shoal {
namespace {

TrainOptions with_one_thread(TrainOptions options) {
  options.threads = 1;
  return options;
}

}  // namespace

PlainPopulation::PlainPopulation(const TrainOptions& options)
    : experiment_(with_one_thread(options)),
      learning_rate_(options.lr_schedule, options.learning_rate, options.warmup_rounds, options.rounds),
      context_{layout(), *experiment_.optimizer, experiment_.sampler.get(), workers_} {
  prepare_tensor_library(options.intra_op);
  prepare_worker_thread(options.intra_op);
  workers_.push_back(std::make_unique<Worker>(context_, experiment_.model->make_learner()));
  for (NodeId record = 0; record < records(); ++record) {
    Record made{Bytes(layout().state().payload_bytes(Part::kPublic)),
                Bytes(layout().state().payload_bytes(Part::kPrivate))};
    experiment_.model->initialize(options.seed, options.init == InitialModels::kSame ? 0 : record,
                                  layout().parameters(made.shared.data()), layout().buffers(made.shared.data()));
    records_.push_back(std::move(made));
  }
}

void PlainPopulation::run(std::uint64_t rounds) {
  // In an arena of one thread, because allreduce asks TBB which worker it is on.
  tbb::task_arena arena(1);
  arena.execute([&] {
    for (std::uint64_t round = 0; round < rounds; ++round) run_round();
  });
}

void PlainPopulation::run_round() {
  const RoundPlan plan = experiment_.algorithm->plan(rounds_done_);
  std::vector<Record> next = records_;
  double loss = 0;
  std::uint64_t trained = 0;
  for (std::size_t k = 0; k < plan.accesses->size(); ++k) {
    const NodeId node = plan.accesses->node(k);
    std::vector<const float*> inputs = {model(node)};
    std::vector<const std::byte*> buffers = {layout().buffers(records_[node].shared.data())};
    for (const NodeId read : plan.accesses->reads(k)) {
      inputs.push_back(model(read));
      buffers.push_back(layout().buffers(records_[read].shared.data()));
    }
    std::vector<float*> slots;
    std::byte* const own = next[node].own.data();
    for (std::size_t s = 0; s < layout().optimizer_slots() + layout().algorithm_slots(); ++s) {
      slots.push_back(layout().slot(own, s));
    }
    std::vector<float> weights(inputs.size());

    NodeStep step;
    step.node = node;
    step.round = rounds_done_;
    step.local_steps = plan.local_steps.empty() ? experiment_.options.local_steps : plan.local_steps[k];
    step.learning_rate = learning_rate_.at(rounds_done_);
    step.layout = &layout();
    step.inputs = inputs;
    step.input_buffers = buffers;
    step.next = layout().parameters(next[node].shared.data());
    step.next_buffers = layout().buffers(next[node].shared.data());
    step.optimizer_slots = std::span(slots).first(layout().optimizer_slots());
    step.algorithm_slots = std::span(slots).subspan(layout().optimizer_slots());
    step.scalars = layout().scalars(own);
    step.weights = weights;
    experiment_.algorithm->mix(step);
    experiment_.algorithm->train(step, *workers_.front());
    if (!step.warning.empty()) warning_ = step.warning;
    if (step.trained) {
      loss += step.loss;
      ++trained;
    }
  }
  records_ = std::move(next);
  loss_ = loss / static_cast<double>(trained);
  ++rounds_done_;
}

std::vector<double> PlainPopulation::mean() const {
  std::vector<double> mean(layout().flat_size(), 0.0);
  for (NodeId record = 0; record < records(); ++record) {
    for (std::size_t k = 0; k < mean.size(); ++k) mean[k] += static_cast<double>(model(record)[k]);
  }
  for (double& value : mean) value /= records();
  return mean;
}

double PlainPopulation::consensus_distance() const {
  const std::vector<double> centre = mean();
  double sum = 0;
  for (NodeId record = 0; record < records(); ++record) {
    for (std::size_t k = 0; k < centre.size(); ++k) {
      const double distance = static_cast<double>(model(record)[k]) - centre[k];
      sum += distance * distance;
    }
  }
  return std::sqrt(sum / records());
}

std::string PlainPopulation::state_hash() const {
  StateHash hash;
  for (NodeId record = 0; record < records(); ++record) {
    hash.add(record, layout().state(), records_[record].shared.data(), records_[record].own.data());
  }
  return hash.text();
}

}  // namespace shoal
