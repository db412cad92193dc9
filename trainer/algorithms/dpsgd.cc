// D-PSGD (Lian et al. 2017), synchronous: all nodes mix with all neighbours and step, in every round.
//
//   cta   x_i <- sum_j w_ij x_j - lr * u(g_i(x_i)): the gradient is taken at the node's own, unmixed model
//   atc   x_i <- sum_j w_ij h_j ; h_i <- x_i - lr * u(g_i(x_i)): what is published is h, and a round begins with the
//   mix
//
// With several local steps, cta adds what they change of the node's own model to the mix.
#include <fmt/format.h>

#include <algorithm>

#include "store/error.h"
#include "trainer/algorithm.h"
#include "trainer/train_options.h"

namespace shoal {
namespace {

class Dpsgd : public Algorithm {
 public:
  explicit Dpsgd(const AlgorithmContext& context)
      : Algorithm(context),
        adapt_first_(text("order") == "atc"),
        mixing_(mixing_of(context.options)),
        buffers_(flag("average-buffers") ? BufferRule::kAverage : BufferRule::kOwn),
        plan_(everybody_acts(context.graph, context.order, Neighbours::kAll)) {
    if (mixing_ == Mixing::kUniform) require_one_degree();
  }

  std::size_t max_reads() const override { return context_.graph.max_degree(); }
  std::uint64_t max_reads_per_round() const override { return 2 * context_.graph.edges(); }
  // Several local steps from the unmixed model need a vector beside it.
  std::size_t vectors_per_worker() const override { return !adapt_first_ && context_.options.local_steps > 1 ? 2 : 1; }
  RoundPlan plan(std::uint64_t) override { return {plan_, {}}; }

  void mix(NodeStep& step) const override {
    mixing_weights(context_.graph, mixing_, step.node, step.weights);
    mix_inputs(step, buffers_);
  }

  void train(NodeStep& step, Worker& worker) const override {
    if (adapt_first_) {
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
  // Elsewhere such weights are not doubly stochastic: every mix would move the mean towards the hubs.
  void require_one_degree() const {
    for (NodeId node = 0; node < context_.graph.nodes(); ++node) {
      if (context_.graph.degree(node) == context_.graph.max_degree()) continue;
      throw Error(
          fmt::format("--mixing uniform: the weights 1/(degree+1) keep the mean of all models only where all "
                      "nodes have one degree, and on --graph {} some have {} and some {}; use metropolis, which "
                      "keeps it on every graph",
                      context_.options.graph, context_.graph.degree(node), context_.graph.max_degree()),
          ExitCode::kUsage);
    }
  }

  const bool adapt_first_;
  const Mixing mixing_;
  const BufferRule buffers_;
  std::shared_ptr<const AccessPlan> plan_;
};

const RegisterAlgorithm kRegistered(
    {.name = "dpsgd",
     .summary = "mix with all neighbours and step, in every round",
     .options = {choice_option("order", {"cta", "atc"}, "cta",
                               "Gradient at the unmixed model (cta), or step, then mix (atc)"),
                 mixing_option(), average_buffers_option()},
     .make = [](const AlgorithmContext& context) { return std::make_unique<Dpsgd>(context); }});

}  // namespace
}  // namespace shoal
