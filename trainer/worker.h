// One worker's tools: a learner, a batch, a gradient. Used by one thread at a time, again and again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "store/types.h"
#include "trainer/batch.h"
#include "trainer/model.h"
#include "trainer/node_layout.h"
#include "trainer/node_step.h"
#include "trainer/optimizer.h"
#include "trainer/sampler.h"

namespace shoal {

class Progress;
class Worker;

// What all workers share.
struct WorkerContext {
  const NodeLayout& layout;
  const Optimizer& optimizer;
  const Sampler* sampler = nullptr;                     // null: the model makes its own data
  const std::vector<std::unique_ptr<Worker>>& workers;  // all of them, by number
  Progress* progress = nullptr;                         // is told of every gradient; may be null
};

class Worker {
 public:
  Worker(const WorkerContext& context, std::unique_ptr<Learner> learner);

  // One local step: a batch of the node's own, its gradient at `point`, and out = base - lr * what the optimizer makes
  // of it. Counts the step and its loss. The three may be the same memory.
  void descend(NodeStep& step, const float* base, const float* point, float* out);
  // The two halves of descend(), for rules that do something in between. The first fills gradient().
  double gradient_of(NodeId node, std::uint64_t step, const float* point, std::byte* buffers);

  void apply(NodeStep& step, const float* base, const float* point, float* out, double loss);

  // For rules that start TBB loops of their own.
  Worker& of_this_thread() const;

  // Gradients computed since the last call.
  std::uint64_t take_count() { return std::exchange(gradients_, 0); }

  std::span<float> gradient() { return gradient_; }
  // A flat vector for the rule's own use, of undefined contents.
  std::span<float> scratch();
  Learner& learner() { return *learner_; }
  Batch& batch() { return batch_; }
  const WorkerContext& context() const { return context_; }

 private:
  WorkerContext context_;
  std::unique_ptr<Learner> learner_;
  Batch batch_;
  std::uint64_t gradients_ = 0;
  std::vector<float> gradient_;
  std::vector<float> scratch_;
};

}  // namespace shoal
