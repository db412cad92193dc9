#include "trainer/worker.h"

#include "pipeline/node_pipeline.h"
#include "trainer/progress.h"

namespace shoal {

Worker::Worker(const WorkerContext& context, std::unique_ptr<Learner> learner)
    : context_(context), learner_(std::move(learner)), gradient_(context.layout.flat_size()) {}

std::span<float> Worker::scratch() {
  scratch_.resize(context_.layout.flat_size());
  return scratch_;
}

double Worker::gradient_of(NodeId node, std::uint64_t step, const float* point, std::byte* buffers) {
  if (context_.sampler != nullptr) context_.sampler->draw(node, step, batch_);
  const double loss = learner_->gradient(node, step, batch_, point, buffers, gradient_.data());
  ++gradients_;
  if (context_.progress != nullptr) context_.progress->step_done();
  return loss;
}

void Worker::descend(NodeStep& step, const float* base, const float* point, float* out) {
  const double loss = gradient_of(step.node, step.scalars->steps, point, step.next_buffers);
  apply(step, base, point, out, loss);
}

void Worker::apply(NodeStep& step, const float* base, const float* point, float* out, double loss) {
  // Here and not before the gradient: what the check brings into the caches is what the optimizer needs next.
  if (step.private_check != nullptr) step.private_check->advance_to_end();
  ++step.scalars->steps;
  context_.optimizer.apply({.base = base,
                            .point = point,
                            .gradient = gradient_.data(),
                            .out = out,
                            .slots = step.optimizer_slots,
                            .size = context_.layout.flat_size(),
                            .learning_rate = step.learning_rate,
                            .step = step.scalars->steps});
  step.scalars->last_loss = loss;
  step.loss += loss / step.local_steps;
  step.trained = true;
}

Worker& Worker::of_this_thread() const { return *context_.workers[NodePipeline::worker()]; }

}  // namespace shoal
