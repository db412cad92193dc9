// No exchange: every node trains alone. What W = I is for all the others.
#include "trainer/algorithm.h"

namespace shoal {
namespace {

class Local : public Algorithm {
 public:
  explicit Local(const AlgorithmContext& context)
      : Algorithm(context), plan_(everybody_acts(context.graph, context.order, Neighbours::kNone)) {}

  std::size_t max_reads() const override { return 0; }
  std::uint64_t max_reads_per_round() const override { return 0; }
  RoundPlan plan(std::uint64_t) override { return {plan_, {}}; }
  void mix(NodeStep& step) const override { keep_own(step); }
  void train(NodeStep& step, Worker& worker) const override {
    for (unsigned k = 0; k < step.local_steps; ++k) worker.descend(step, step.next, step.next, step.next);
  }

 private:
  std::shared_ptr<const AccessPlan> plan_;
};

const RegisterAlgorithm kRegistered({.name = "local",
                                     .summary = "no exchange: every node trains alone",
                                     .make = [](const AlgorithmContext& context) {
                                       return std::make_unique<Local>(context);
                                     }});

}  // namespace
}  // namespace shoal
