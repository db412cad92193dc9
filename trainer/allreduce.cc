// AR-SGD: all nodes hold the same model, so the store holds one. A step averages the gradients of all nodes at it.
//
// Gradients are added up in fixed point, so the sum is exact: the same bits in any order, for any number of workers and
// of ranks. Each rank takes an equal share of the nodes and applies the mean to its own copy of the model.
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "pipeline/node_pipeline.h"
#include "pipeline/vector_clones.h"
#include "trainer/algorithm.h"
#include "trainer/fixed_sum.h"
#include "trainer/train_options.h"

namespace shoal {
namespace {

// A gradient with larger elements has run away; the mean is a NaN then, as it would be soon anyway.
constexpr double kFarthest = 1024;
constexpr double kMagic = 0x1.8p52;  // see population.cc

// As fine as the sum over all nodes and the conversion allow.
double scale_for(NodeId nodes) { return std::ldexp(1.0, std::min(41, 52 - static_cast<int>(std::bit_width(nodes)))); }

// Returns the sum of squares, for the caller to see whether the values were in range.
SHOAL_VECTOR_CLONES double accumulate(const float* __restrict values, std::int64_t* __restrict sums, std::size_t size,
                                      double scale) {
  const auto magic = std::bit_cast<std::int64_t>(kMagic);
  constexpr std::size_t kLanes = 8;
  double squares[kLanes] = {};
  const auto take = [&](std::size_t k, std::size_t lane) {
    const double value = values[k];
    squares[lane] += value * value;
    sums[k] += std::bit_cast<std::int64_t>(value * scale + kMagic) - magic;
  };
  const std::size_t whole = size / kLanes * kLanes;
  for (std::size_t k = 0; k < whole; k += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) take(k + lane, lane);
  }
  for (std::size_t k = whole; k < size; ++k) take(k, k - whole);
  double total = 0;
  for (const double lane : squares) total += lane;
  return total;
}

// Calls function(floats, count) for every float32 buffer in `buffers`.
template <typename Function>
void for_float_buffers(const NodeLayout& layout, std::byte* buffers, Function function) {
  for (const TensorPlace& place : layout.buffers()) {
    if (place.spec.dtype != DType::kFloat32) continue;
    function(reinterpret_cast<float*>(buffers + (place.offset - layout.buffers().front().offset)),
             place.bytes / sizeof(float));
  }
}

std::size_t float_buffer_count(const NodeLayout& layout) {
  std::size_t count = 0;
  for_float_buffers(layout, nullptr, [&](float*, std::size_t floats) { count += floats; });
  return count;
}

// What one worker has added up: the gradient, then the float buffers.
struct NodeSums {
  std::vector<std::int64_t> values;
  std::vector<std::byte> buffers;  // of the node at hand: what its forward pass left
  FixedSum loss;
  bool any = false;  // had a node
  bool ran_away = false;
};

class AllReduce : public Algorithm {
 public:
  explicit AllReduce(const AlgorithmContext& context) : Algorithm(context), scale_(scale_for(context.graph.nodes())) {
    auto plan = std::make_shared<AccessPlan>();
    plan->add(StepKind::kUpdate, 0);
    plan_ = std::move(plan);
  }

  NodeId records() const override { return 1; }
  // With a sum of 64 bits each.
  std::size_t vectors_per_worker() const override { return 4; }
  std::size_t max_reads() const override { return 0; }
  std::uint64_t max_reads_per_round() const override { return 0; }
  RoundPlan plan(std::uint64_t) override { return {plan_, {}}; }
  void mix(NodeStep& step) const override { keep_own(step); }

  void train(NodeStep& step, Worker& worker) const override {
    std::vector<NodeSums> sums(context_.options.threads);
    for (unsigned k = 0; k < step.local_steps; ++k) {
      sum_over_nodes(step, worker, sums);
      const NodeSums& total = sums[0];
      const double nodes = context_.graph.nodes();
      const auto mean_of = [&](std::int64_t sum) {
        return total.ran_away ? std::numeric_limits<float>::quiet_NaN()
                              : static_cast<float>(static_cast<double>(sum) / scale_ / nodes);
      };
      const std::span<float> mean = worker.gradient();
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = mean_of(total.values[i]);
      // Counters, such as BatchNorm's, are the same for all nodes; floats are set to their mean.
      std::memcpy(step.next_buffers, total.buffers.data(), total.buffers.size());
      std::size_t at = mean.size();
      for_float_buffers(*step.layout, step.next_buffers, [&](float* out, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) out[i] = mean_of(total.values[at++]);
      });
      worker.apply(step, step.next, step.next, step.next, total.loss.value() / nodes);
    }
  }

 private:
  // Into sums[0], over all ranks.
  void sum_over_nodes(const NodeStep& step, Worker& worker, std::vector<NodeSums>& sums) const {
    const Team& team = context_.team;
    const std::uint64_t nodes = context_.graph.nodes();
    for (NodeSums& each : sums) {
      each.values.assign(step.flat_size() + float_buffer_count(*step.layout), 0);
      each.buffers.assign(step.next_buffers, step.next_buffers + step.layout->buffers_bytes());
      each.loss = {};
      each.any = each.ran_away = false;
    }
    tbb::parallel_for(
        static_cast<NodeId>(nodes * team.rank / team.size), static_cast<NodeId>(nodes * (team.rank + 1) / team.size),
        [&](NodeId node) { add_node(step, worker.of_this_thread(), node, sums[NodePipeline::worker()]); });
    NodeSums& total = sums[0];
    for (std::size_t k = 1; k < sums.size(); ++k) {
      for (std::size_t i = 0; i < total.values.size(); ++i) total.values[i] += sums[k].values[i];
      total.loss.add(sums[k].loss);
      total.ran_away |= sums[k].ran_away;
    }
    // Counters stand where a node's forward pass left them, and worker 0 may have had no node.
    const auto some = std::ranges::find_if(sums, [](const NodeSums& each) { return each.any; });
    if (some != sums.end() && some != sums.begin()) total.buffers = some->buffers;
    if (!team.sum) return;
    team.sum(total.values);
    std::array<std::int64_t, FixedSum::kLimbs + 1> rest{};
    std::ranges::copy(total.loss.limbs(), rest.begin());
    rest.back() = total.ran_away ? 1 : 0;
    team.sum(rest);
    total.loss = FixedSum::from_limbs(rest);
    total.ran_away = rest.back() != 0;
  }

  void add_node(const NodeStep& step, Worker& worker, NodeId node, NodeSums& sums) const {
    std::memcpy(sums.buffers.data(), step.next_buffers, sums.buffers.size());
    sums.loss.add(worker.gradient_of(node, step.scalars->steps, step.next, sums.buffers.data()));
    const std::span<const float> gradient = worker.gradient();
    double squares = accumulate(gradient.data(), sums.values.data(), gradient.size(), scale_);
    std::size_t at = gradient.size();
    for_float_buffers(*step.layout, sums.buffers.data(), [&](const float* values, std::size_t count) {
      squares += accumulate(values, sums.values.data() + at, count, scale_);
      at += count;
    });
    sums.any = true;
    sums.ran_away |= !(squares < kFarthest * kFarthest);
  }

  const double scale_;
  std::shared_ptr<const AccessPlan> plan_;
};

const RegisterAlgorithm kRegistered("allreduce", "AR-SGD: one model, the mean of all nodes' gradients in every round",
                                    [](const AlgorithmContext& context) {
                                      return std::make_unique<AllReduce>(context);
                                    });

}  // namespace
}  // namespace shoal
