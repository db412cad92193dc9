#include "bench/steps.h"

#include "bench/content.h"
#include "store/error.h"

namespace shoal::bench {

Work Steps::work(Verb verb, std::uint64_t round) {
  switch (verb) {
    case Verb::kFill: return [this](const StepView& step) { fill(step); };
    case Verb::kStream:
    case Verb::kGossipRound: return [this, round](const StepView& step) { change(step, round); };
    case Verb::kRandomRead: return [this](const StepView& step) { read(step); };
    default: SHOAL_CHECK(verb == Verb::kInspect); return [this](const StepView& step) { inspect(step); };
  }
}

void Steps::fill(const StepView& step) {
  create(step.next, shadow_.words(Part::kPublic), creation_key(seed_, step.node, Part::kPublic));
  create(step.private_state, shadow_.words(Part::kPrivate), creation_key(seed_, step.node, Part::kPrivate));
  shadow_.expect_created(step.node, seed_, step.next, step.private_state);
}

void Steps::change(const StepView& step, std::uint64_t round) {
  mix(step.current, step.reads, step.next, shadow_.words(Part::kPublic), change_key(seed_, round, Part::kPublic));
  bench::change(step.private_state, shadow_.words(Part::kPrivate), change_key(seed_, round, Part::kPrivate));
  shadow_.expect_changed(step.node, seed_, round, step.read_nodes, step.next, step.private_state);
}

void Steps::read(const StepView& step) {
  for (std::size_t k = 0; k < step.reads.size(); ++k) {
    sink_.fetch_xor(fold(step.reads[k], shadow_.words(Part::kPublic)), std::memory_order_relaxed);
    shadow_.expect_public(step.read_nodes[k], step.reads[k]);
  }
}

void Steps::inspect(const StepView& step) {
  const std::uint64_t seed = std::uint64_t{step.node} * 2;
  fingerprint_ += hash(step.current, shadow_.words(Part::kPublic), seed);
  fingerprint_ += hash(step.private_state, shadow_.words(Part::kPrivate), seed + 1);
  shadow_.expect_public(step.node, step.current);
  shadow_.expect_private(step.node, step.private_state);
}

}  // namespace shoal::bench
