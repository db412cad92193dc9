// Asynchronous gossip in ticks: a round is a tick. A node trains every 8 to 12 ticks and sends its model to all
// neighbours; a receiver adds up what comes, and when it has as many models as neighbours (times --gossip-buffer) it
// averages: x <- c * x + (1 - c) * sum / count.
//
// What is sent in a tick arrives in the next. So a node acts in a tick when it trains, or when a neighbour trained in
// the tick before. Who trains when is a function of the seed: the plan needs one number per node, and no messages.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "pipeline/mix.h"
#include "store/error.h"
#include "trainer/algorithm.h"
#include "trainer/random.h"
#include "trainer/train_options.h"

namespace shoal {
namespace {

struct TickRange {
  std::uint32_t least = 0;
  std::uint32_t most = 0;
};

// "8-12" or "10".
TickRange parse_ticks(const std::string& text) {
  TickRange range;
  const char* const end = text.data() + text.size();
  auto [after, error] = std::from_chars(text.data(), end, range.least);
  range.most = range.least;
  if (error == std::errc() && after != end && *after == '-') {
    const auto second = std::from_chars(after + 1, end, range.most);
    error = second.ec;
    after = second.ptr;
  }
  if (error != std::errc() || after != end || range.least < 1 || range.most < range.least) {
    throw Error("ticks between trainings are written as 8-12 or 10, and at least 1", ExitCode::kUsage);
  }
  return range;
}

std::string canonical_ticks(const std::string& text) {
  const TickRange range = parse_ticks(text);
  return range.least == range.most ? std::to_string(range.least) : fmt::format("{}-{}", range.least, range.most);
}

OptionForm ticks_option() {
  OptionForm form =
      text_option("gossip-every", "8-12", "TICKS", canonical_ticks, "Ticks between a node's trainings, as 8-12 or 10");
  form.kind = ValueKind::kTextOrWhole;
  return form;
}

class Gossip : public Algorithm {
 public:
  explicit Gossip(const AlgorithmContext& context)
      : Algorithm(context),
        every_(parse_ticks(text("gossip-every"))),
        own_weight_(static_cast<float>(real("gossip-own"))),
        buffer_(whole("gossip-buffer")),
        next_training_(context.graph.nodes()),
        trainings_(context.graph.nodes(), 0) {
    for (NodeId node = 0; node < context.graph.nodes(); ++node) {
      RandomStream random(context.options.seed, Purpose::kSchedule, node);
      next_training_[node] = random.below(every_.least);
    }
  }

  std::vector<std::string> slots() const override { return {"received_sum"}; }
  std::vector<std::string> scalars() const override { return {"received"}; }  // models, since it last averaged
  std::size_t max_reads() const override { return context_.graph.max_degree(); }
  std::uint64_t max_reads_per_round() const override { return 2 * context_.graph.edges(); }
  bool all_act() const override { return false; }

  // It copies its own record when it acts, adds what it receives, and trains; what averaging takes is the same for all.
  double expected_work(NodeId node) const override {
    const double trains = 2 / static_cast<double>(std::uint64_t{every_.least} + every_.most);
    const std::uint32_t degree = context_.graph.degree(node);
    double rests = 1 - trains;
    for (std::uint32_t k = 0; k < degree && rests > 1e-12; ++k) rests *= 1 - trains;
    return trains * context_.options.local_steps + kRecordWork * (1 - rests + trains * degree);
  }

  RoundPlan plan(std::uint64_t round) override {
    RoundPlan plan;
    auto accesses = std::make_shared<AccessPlan>();
    // As much as --ram has room for: a plan that grew by doubling could take more.
    accesses->reserve(context_.graph.nodes(), max_reads_per_round());
    std::vector<NodeId> senders;
    // sent_ still holds who trained in the round before; trains_ is filled for this one.
    trains_.assign(context_.graph.nodes(), 0);
    for (NodeId node = 0; node < context_.graph.nodes(); ++node) {
      if (next_training_[node] == round) {
        trains_[node] = 1;
        next_training_[node] += period(node);
      }
    }
    for (const NodeId node : context_.order) {
      senders.clear();
      if (!sent_.empty()) {
        for (const NodeId neighbour : context_.graph.neighbours(node)) {
          if (sent_[neighbour] != 0) senders.push_back(neighbour);
        }
      }
      if (senders.empty() && trains_[node] == 0) continue;
      accesses->add(StepKind::kUpdate, node, senders);
      plan.local_steps.push_back(trains_[node] != 0 ? static_cast<std::uint16_t>(context_.options.local_steps) : 0);
    }
    std::swap(sent_, trains_);
    plan.accesses = std::move(accesses);
    return plan;
  }

  void mix(NodeStep& step) const override {
    keep_own(step);
    const std::size_t count = step.inputs.size() - 1;
    if (count == 0) return;
    float* const sum = step.algorithm_slots[0];
    for (std::size_t k = 1; k <= count; ++k) add(step.inputs[k], sum, step.flat_size());
    std::uint64_t& received = step.scalars->of_algorithm(0);
    received += count;
    if (received < buffer_ * context_.graph.degree(step.node)) return;
    const float weights[] = {own_weight_, (1 - own_weight_) / static_cast<float>(received)};
    const float* const parts[] = {step.current(), sum};
    shoal::mix(weights, parts, step.next, step.flat_size());
    std::fill_n(sum, step.flat_size(), 0.0F);
    received = 0;
  }

  void train(NodeStep& step, Worker& worker) const override {
    for (unsigned k = 0; k < step.local_steps; ++k) worker.descend(step, step.next, step.next, step.next);
  }

 private:
  static void add(const float* __restrict from, float* __restrict to, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) to[i] += from[i];
  }

  std::uint32_t period(NodeId node) {
    RandomStream random(context_.options.seed, Purpose::kSchedule, node, ++trainings_[node]);
    return every_.least + random.below(every_.most - every_.least + 1);
  }

  const TickRange every_;
  const float own_weight_;
  const std::uint64_t buffer_;
  std::vector<std::uint64_t> next_training_;
  std::vector<std::uint32_t> trainings_;
  std::vector<std::uint8_t> trains_;
  std::vector<std::uint8_t> sent_;  // in the round before; empty before the first
};

const RegisterAlgorithm kRegistered(
    {.name = "gossip",
     .summary = "asynchronous, in ticks: train now and then, send, average when the buffer is full",
     .options = {ticks_option(),
                 real_option("gossip-own", 0.5, {.least = 0, .most = 1},
                             "The weight of the node's own model when it averages"),
                 whole_option("gossip-buffer", 1, 1, 1'000'000,
                              "Average when this many models per neighbour have come")},
     .make = [](const AlgorithmContext& context) { return std::make_unique<Gossip>(context); }});

}  // namespace
}  // namespace shoal
