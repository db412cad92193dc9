#include "trainer/planned_rounds.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace shoal {
namespace {

// Reads by steps of other ranks, at the part of the round that those are at then.
std::shared_ptr<const std::vector<ReadByOther>> reads_by_others(const AccessPlan& global, const Share& share,
                                                                unsigned rank, unsigned ranks) {
  std::vector<float> steps(ranks, 0);
  for (std::size_t step = 0; step < global.size(); ++step) ++steps[share.owner(global.node(step))];
  std::vector<float> done(ranks, 0);
  std::vector<float> last(std::size_t{ranks} * share.nodes(), -1);  // when the rank has read the node
  auto reads = std::make_shared<std::vector<ReadByOther>>();
  for (std::size_t step = 0; step < global.size(); ++step) {
    const unsigned reader = share.owner(global.node(step));
    const float when = done[reader]++ / steps[reader];
    if (reader == rank) continue;
    for (const NodeId node : global.reads(step)) {
      if (!share.owns(node)) continue;
      const NodeId local = share.local(node);
      float& before = last[std::size_t{reader} * share.nodes() + local];
      reads->push_back({local, when, before < 0 ? ReadByOther::kFirst : when - before});
      before = when;
    }
  }
  std::ranges::stable_sort(*reads, {}, &ReadByOther::when);
  return reads;
}

}  // namespace

Schedule planned_rounds(const std::shared_ptr<const Experiment>& experiment, const RankOfRun& rank) {
  const std::shared_ptr<Algorithm> algorithm =
      make_algorithm({experiment->options, experiment->graph(), experiment->order, experiment->team});
  // Rounds that are all alike are looked at once.
  const auto last = std::make_shared<std::pair<RoundPlan, PlannedRound>>();
  return [experiment, algorithm, rank, last](std::uint64_t round) {
    const RoundPlan plan = algorithm->plan(round);
    if (plan.accesses == last->first.accesses) return last->second;
    const RoundPlan local = rank.share->translate(plan);
    PlannedRound planned;
    planned.accesses = local.accesses;
    planned.local_steps = experiment->node_steps(local, rank.rank, rank.ranks);
    if (!rank.share->whole()) {
      planned.by_others = reads_by_others(*plan.accesses, *rank.share, rank.rank, rank.ranks);
    }
    *last = {plan, planned};
    return planned;
  };
}

}  // namespace shoal
