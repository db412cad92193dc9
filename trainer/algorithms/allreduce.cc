// AR-SGD: all nodes hold the same model, so the store holds one. A step averages the gradients of all nodes at it.
//
// Gradients are added up in fixed point, so the sum is exact: the same bits in any order, for any number of workers and
// of ranks. Each rank takes an equal share of the nodes and applies the mean to its own copy of the model.
#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

#include "pipeline/node_pipeline.h"
#include "store/types.h"
#include "trainer/algorithm.h"
#include "trainer/exact_sums.h"
#include "trainer/fixed_sum.h"
#include "trainer/train_options.h"

namespace shoal {
namespace {

// The float32 tensors among the buffers, one after the other.
class FloatBuffers {
 public:
  explicit FloatBuffers(const NodeLayout& layout) {
    for (const TensorPlace& place : layout.buffers()) {
      if (place.spec.dtype != DType::kFloat32) continue;
      places_.push_back({place.offset - layout.buffers().front().offset, size_, place.bytes / sizeof(float)});
      size_ += places_.back().count;
    }
  }
  std::size_t tensors() const { return places_.size(); }
  std::size_t size() const { return size_; }                                     // of all, in floats
  std::size_t first(std::size_t tensor) const { return places_[tensor].first; }  // of those, the tensor's
  std::span<float> of(std::size_t tensor, std::byte* buffers) const {
    return {reinterpret_cast<float*>(buffers + places_[tensor].offset), places_[tensor].count};
  }

 private:
  struct Place {
    std::uint64_t offset = 0;
    std::size_t first = 0;
    std::size_t count = 0;
  };
  std::vector<Place> places_;
  std::size_t size_ = 0;
};

// One local step of all nodes. Made in the first, used again in all others.
struct NodeSums {
  NodeSums(const NodeLayout& layout, NodeId nodes, unsigned threads)
      : places(layout),
        gradient(layout.flat_size(), nodes),
        buffers(places.size(), nodes),
        changes(places.tensors()),
        first_buffers((layout.buffers_bytes() + sizeof(std::int64_t) - 1) / sizeof(std::int64_t)),
        node_buffers(threads, std::vector<std::byte>(layout.buffers_bytes())) {}

  void clear() {
    gradient.clear();
    buffers.clear();
    std::ranges::fill(changes, 0);
    std::ranges::fill(first_buffers, 0);
    loss = {};
    ran_away.reset();
  }

  const FloatBuffers places;
  ExactSums gradient;
  ExactSums buffers;                        // of nodes that changed the tensor
  std::mutex mutex;                         // guards what follows
  std::vector<std::int64_t> changes;        // by tensor: how many did
  std::vector<std::int64_t> first_buffers;  // what node 0 left of them, as bytes
  FixedSum loss;
  std::optional<NodeId> ran_away;                    // the first such node
  std::vector<std::vector<std::byte>> node_buffers;  // by worker: the node's at hand
};

class AllReduce : public Algorithm {
 public:
  explicit AllReduce(const AlgorithmContext& context) : Algorithm(context) {
    auto plan = std::make_shared<AccessPlan>();
    plan->add(StepKind::kUpdate, 0);
    plan_ = std::move(plan);
  }

  NodeId records() const override { return 1; }
  std::uint64_t own_bytes(const NodeLayout& layout) const override {
    return ExactSums::bytes_for(layout.flat_size() + FloatBuffers(layout).size()) +
           (context_.options.threads + 1) * layout.buffers_bytes();
  }
  std::size_t max_reads() const override { return 0; }
  std::uint64_t max_reads_per_round() const override { return 0; }
  RoundPlan plan(std::uint64_t) override { return {plan_, {}}; }
  void mix(NodeStep& step) const override { keep_own(step); }

  void train(NodeStep& step, Worker& worker) const override {
    if (!sums_) sums_ = std::make_unique<NodeSums>(*step.layout, context_.graph.nodes(), context_.options.threads);
    const double nodes = context_.graph.nodes();
    for (unsigned k = 0; k < step.local_steps; ++k) {
      sum_over_nodes(step, worker);
      const std::span<float> mean = worker.gradient();
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = static_cast<float>(sums_->gradient.sum(i) / nodes);
      set_buffers(step);
      worker.apply(step, step.next, step.next, step.next, sums_->loss.value() / nodes);
    }
  }

 private:
  // Into sums_, over all ranks.
  void sum_over_nodes(NodeStep& step, Worker& worker) const {
    const Team& team = context_.team;
    const std::uint64_t nodes = context_.graph.nodes();
    NodeSums& sums = *sums_;
    sums.clear();
    tbb::parallel_for(static_cast<NodeId>(nodes * team.rank / team.size),
                      static_cast<NodeId>(nodes * (team.rank + 1) / team.size),
                      [&](NodeId node) { add_node(step, worker.of_this_thread(), node); });
    if (team.sum) {
      sums.gradient.add_ranks(team.sum);
      sums.buffers.add_ranks(team.sum);
      team.sum(sums.changes);
      team.sum(sums.first_buffers);
      // The loss; and by rank, counted from one, the node that ran away.
      const auto limbs = sums.loss.limbs();
      std::vector<std::int64_t> rest(limbs.begin(), limbs.end());
      rest.resize(limbs.size() + team.size);
      if (sums.ran_away) rest[limbs.size() + team.rank] = std::int64_t{*sums.ran_away} + 1;
      team.sum(rest);
      sums.loss = FixedSum::from_limbs(rest);
      const auto first =
          std::find_if(rest.begin() + limbs.size(), rest.end(), [](std::int64_t node) { return node != 0; });
      if (first != rest.end()) sums.ran_away = static_cast<NodeId>(*first - 1);
    }
    if (sums.ran_away) {
      step.warning = fmt::format(
          "node {}: its gradient or its buffers have elements beyond {:.1e}, or that are no numbers; so is the "
          "model from here on. Try a smaller --lr",
          *sums.ran_away, sums.gradient.limit());
    }
  }

  void add_node(const NodeStep& step, Worker& worker, NodeId node) const {
    NodeSums& sums = *sums_;
    std::vector<std::byte>& buffers = sums.node_buffers[NodePipeline::worker()];
    std::copy_n(step.next_buffers, buffers.size(), buffers.begin());
    const double loss = worker.gradient_of(node, step.scalars->steps, step.next, buffers.data());
    bool good = sums.gradient.add(worker.gradient());
    for (std::size_t tensor = 0; tensor < sums.places.tensors(); ++tensor) {
      const std::span<const float> before = sums.places.of(tensor, step.next_buffers);
      const std::span<const float> after = sums.places.of(tensor, buffers.data());
      // Constants may be anything: masks are often infinite.
      if (std::memcmp(before.data(), after.data(), after.size_bytes()) == 0) continue;
      good &= sums.buffers.add(after, sums.places.first(tensor));
      const std::scoped_lock lock(sums.mutex);
      ++sums.changes[tensor];
    }
    const std::scoped_lock lock(sums.mutex);
    if (node == 0) std::memcpy(sums.first_buffers.data(), buffers.data(), buffers.size());
    sums.loss.add(loss);
    if (!good) sums.ran_away = std::min(sums.ran_away.value_or(node), node);
  }

  // Floats are set to their mean; counters, such as BatchNorm's, are node 0's.
  void set_buffers(const NodeStep& step) const {
    const NodeSums& sums = *sums_;
    const auto nodes = static_cast<std::int64_t>(context_.graph.nodes());
    std::vector<std::byte>& before = sums_->node_buffers[0];
    std::copy_n(step.next_buffers, before.size(), before.begin());
    std::memcpy(step.next_buffers, sums.first_buffers.data(), before.size());
    for (std::size_t tensor = 0; tensor < sums.places.tensors(); ++tensor) {
      const std::span<const float> old = sums.places.of(tensor, before.data());
      const std::span<float> out = sums.places.of(tensor, step.next_buffers);
      const std::int64_t kept = nodes - sums.changes[tensor];
      for (std::size_t i = 0; i < out.size(); ++i) {
        double sum = sums.buffers.sum(sums.places.first(tensor) + i);
        if (kept > 0) sum += static_cast<double>(kept) * static_cast<double>(old[i]);
        out[i] = kept == nodes ? old[i] : static_cast<float>(sum / static_cast<double>(nodes));
      }
    }
  }

  std::shared_ptr<const AccessPlan> plan_;
  mutable std::unique_ptr<NodeSums> sums_;  // one record, so train() is never called twice at once
};

const RegisterAlgorithm kRegistered({.name = "allreduce",
                                     .summary = "AR-SGD: one model, the mean of all nodes' gradients in every round",
                                     .make = [](const AlgorithmContext& context) {
                                       return std::make_unique<AllReduce>(context);
                                     }});

}  // namespace
}  // namespace shoal
