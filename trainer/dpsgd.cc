// D-PSGD (Lian et al. 2017), synchronous: all nodes mix with all neighbours and step, in every round.
//
//   cta   x_i <- sum_j w_ij x_j - lr * u(g_i(x_i)): the gradient is taken at the node's own, unmixed model
//   atc   x_i <- sum_j w_ij h_j ; h_i <- x_i - lr * u(g_i(x_i)): what is published is h, and a round begins with the
//   mix
//
// With several local steps, cta adds what they change of the node's own model to the mix.
#include <algorithm>

#include "trainer/algorithm.h"
#include "trainer/train_options.h"

namespace shoal {
namespace {

class Dpsgd : public Algorithm {
 public:
  explicit Dpsgd(const AlgorithmContext& context)
      : Algorithm(context), plan_(everybody_acts(context.graph, context.order, Neighbours::kAll)) {}

  std::size_t max_reads() const override { return context_.graph.max_degree(); }
  std::uint64_t max_reads_per_round() const override { return 2 * context_.graph.edges(); }
  RoundPlan plan(std::uint64_t) override { return {plan_, {}}; }

  void mix(NodeStep& step) const override {
    mixing_weights(context_.graph, context_.options.mixing, step.node, step.weights);
    mix_inputs(step, context_.options.average_buffers ? BufferRule::kAverage : BufferRule::kOwn);
  }

  void train(NodeStep& step, Worker& worker) const override {
    if (context_.options.order == DpsgdOrder::kAtc) {
      for (unsigned k = 0; k < step.local_steps; ++k) worker.descend(step, step.next, step.next, step.next);
    } else if (step.local_steps == 1) {
      worker.descend(step, step.next, step.current(), step.next);
    } else if (step.local_steps > 1) {
      const std::span<float> local = worker.scratch();
      std::copy_n(step.current(), local.size(), local.data());
      for (unsigned k = 0; k < step.local_steps; ++k) worker.descend(step, local.data(), local.data(), local.data());
      for (std::size_t i = 0; i < local.size(); ++i) step.next[i] += local[i] - step.current()[i];
    }
  }

 private:
  std::shared_ptr<const AccessPlan> plan_;
};

const RegisterAlgorithm kRegistered("dpsgd", "mix with all neighbours and step, in every round (--order cta|atc)",
                                    [](const AlgorithmContext& context) { return std::make_unique<Dpsgd>(context); });

}  // namespace
}  // namespace shoal
