// AR-SGD: all nodes hold the same model, so the store holds one. A step averages the gradients of all nodes at it.
//
// Gradients are added up in node order within blocks of fixed size, and blocks in their order: the sum has the same
// bits for any number of workers. Workers run ahead by as many blocks as there are workers.
#include <oneapi/tbb/parallel_pipeline.h>

#include <algorithm>
#include <cstring>

#include "pipeline/node_pipeline.h"
#include "trainer/algorithm.h"
#include "trainer/train_options.h"

namespace shoal {
namespace {

constexpr NodeId kBlockNodes = 8;

// What a block of nodes contributes: sums over its nodes, added up in their order.
struct BlockSum {
  NodeId first = 0;
  std::vector<float> gradient;
  std::vector<float> float_buffers;     // one tensor after the other
  std::vector<std::byte> node_buffers;  // of the block's last node: what its forward pass left
  double loss = 0;
};

// Calls function(floats, count) for every float32 buffer in `buffers`.
template <typename Function>
void for_float_buffers(const NodeLayout& layout, std::byte* buffers, Function function) {
  for (const TensorPlace& place : layout.buffers()) {
    if (place.spec.dtype != DType::kFloat32) continue;
    function(reinterpret_cast<float*>(buffers + (place.offset - layout.buffers().front().offset)),
             place.bytes / sizeof(float));
  }
}

class AllReduce : public Algorithm {
 public:
  explicit AllReduce(const AlgorithmContext& context) : Algorithm(context) {
    auto plan = std::make_shared<AccessPlan>();
    plan->add(StepKind::kUpdate, 0);
    plan_ = std::move(plan);
  }

  NodeId records() const override { return 1; }
  // With a block's sum; and the sum of all blocks, which is there once, in double precision.
  std::size_t vectors_per_worker() const override { return 5; }
  std::size_t max_reads() const override { return 0; }
  std::uint64_t max_reads_per_round() const override { return 0; }
  RoundPlan plan(std::uint64_t) override { return {plan_, {}}; }
  void mix(NodeStep& step) const override { keep_own(step); }

  void train(NodeStep& step, Worker& worker) const override {
    Sums sums;
    sums.blocks.resize(context_.options.threads);
    for (unsigned k = 0; k < step.local_steps; ++k) {
      sum_over_nodes(step, worker, sums);
      const double nodes = context_.graph.nodes();
      const std::span<float> mean = worker.gradient();
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = static_cast<float>(sums.gradient[i] / nodes);
      std::size_t at = 0;
      for_float_buffers(*step.layout, step.next_buffers, [&](float* out, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<float>(sums.float_buffers[at++] / nodes);
      });
      worker.apply(step, step.next, step.next, step.next, sums.loss / nodes);
    }
  }

 private:
  struct Sums {
    std::vector<BlockSum> blocks;  // a ring: tokens leave the pipeline in the order in which they entered
    std::vector<double> gradient;
    std::vector<double> float_buffers;
    double loss = 0;
  };

  void sum_over_nodes(NodeStep& step, Worker& worker, Sums& sums) const {
    const NodeId nodes = context_.graph.nodes();
    sums.gradient.assign(step.flat_size(), 0);
    sums.float_buffers.clear();
    sums.loss = 0;
    NodeId next = 0;
    tbb::parallel_pipeline(
        sums.blocks.size(),
        tbb::make_filter<void, BlockSum*>(tbb::filter_mode::serial_in_order,
                                          [&](tbb::flow_control& control) -> BlockSum* {
                                            if (next >= nodes) {
                                              control.stop();
                                              return nullptr;
                                            }
                                            BlockSum& block = sums.blocks[next / kBlockNodes % sums.blocks.size()];
                                            block.first = next;
                                            next += kBlockNodes;
                                            return &block;
                                          }) &
            tbb::make_filter<BlockSum*, BlockSum*>(tbb::filter_mode::parallel,
                                                   [&](BlockSum* block) {
                                                     sum_block(step, worker.of_this_thread(), *block);
                                                     return block;
                                                   }) &
            tbb::make_filter<BlockSum*, void>(tbb::filter_mode::serial_in_order, [&](BlockSum* block) {
              sums.loss += block->loss;
              for (std::size_t i = 0; i < sums.gradient.size(); ++i) sums.gradient[i] += block->gradient[i];
              sums.float_buffers.resize(block->float_buffers.size(), 0);
              for (std::size_t i = 0; i < sums.float_buffers.size(); ++i) {
                sums.float_buffers[i] += block->float_buffers[i];
              }
              if (next >= nodes && block->first + kBlockNodes >= nodes) {
                // Counters, such as BatchNorm's, are the same for all; the floats are set to their mean afterwards.
                std::memcpy(step.next_buffers, block->node_buffers.data(), block->node_buffers.size());
              }
            }));
  }

  void sum_block(const NodeStep& step, Worker& worker, BlockSum& block) const {
    const NodeLayout& layout = *step.layout;
    block.gradient.assign(step.flat_size(), 0);
    block.node_buffers.resize(layout.buffers_bytes());
    block.float_buffers.clear();
    block.loss = 0;
    const NodeId end = std::min(block.first + kBlockNodes, context_.graph.nodes());
    for (NodeId node = block.first; node < end; ++node) {
      std::memcpy(block.node_buffers.data(), step.next_buffers, block.node_buffers.size());
      block.loss += worker.gradient_of(node, step.scalars->steps, step.next, block.node_buffers.data());
      const std::span<const float> gradient = worker.gradient();
      for (std::size_t i = 0; i < gradient.size(); ++i) block.gradient[i] += gradient[i];
      std::size_t at = 0;
      for_float_buffers(layout, block.node_buffers.data(), [&](const float* values, std::size_t count) {
        if (block.float_buffers.size() < at + count) block.float_buffers.resize(at + count, 0);
        for (std::size_t i = 0; i < count; ++i) block.float_buffers[at++] += values[i];
      });
    }
  }

  std::shared_ptr<const AccessPlan> plan_;
};

const RegisterAlgorithm kRegistered("allreduce", "AR-SGD: one model, the mean of all nodes' gradients in every round",
                                    [](const AlgorithmContext& context) {
                                      return std::make_unique<AllReduce>(context);
                                    });

}  // namespace
}  // namespace shoal
