// A store driven the way a trainer would, beside a model of it that cannot be wrong: plain vectors in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "store/state_store.h"
#include "tests/store/temporary_directory.h"

namespace shoal::testing {

using Words = std::vector<std::uint32_t>;

struct ModelNode {
  Version version = 0;
  Words published;
  Words own;
  friend bool operator==(const ModelNode&, const ModelNode&) = default;
};

// All nodes' state, and what a round does to it.
struct Model {
  Model(NodeId nodes, const StateLayout& layout);
  void run(const AccessPlan& plan, std::uint64_t seed);

  std::vector<ModelNode> nodes;
  std::size_t public_words;
  std::size_t private_words;
};

// A layout of these payload sizes, rounded down to whole words.
StateLayout layout_of(std::uint64_t public_bytes, std::uint64_t private_bytes);

// Every node, in order, is created.
std::shared_ptr<const AccessPlan> creation_plan(NodeId nodes);
// A random share of the nodes, each at most once, in random order: updates with up to `max_reads` reads, some
// inspections, some pure reads. Every node must exist already.
std::shared_ptr<const AccessPlan> random_plan(NodeId nodes, std::size_t max_reads, std::mt19937_64& random);
// All nodes in order, each reading `degree` random others.
std::shared_ptr<const AccessPlan> gossip_plan(NodeId nodes, std::size_t degree, std::mt19937_64& random);

// How a store of one rank of several is driven.
struct RankView {
  std::vector<NodeId> names;             // of the model's nodes, by their number in the store and its plans
  std::function<void()> when_done = {};  // called when the rank's steps are done, before the round is ended
};

// Runs the round that the store has planned next with this many workers. Each checks what it is given against the model
// as it was before the round (throws Error where they differ) and does what Model::run does.
RoundReport run_round(StateStore& store, const AccessPlan& plan, const Model& before, std::uint64_t seed,
                      unsigned workers, const RankView& rank = {});

// plan() and run_round(), then the model follows.
RoundReport run_both(StateStore& store, Model& model, std::shared_ptr<const AccessPlan> plan, std::uint64_t seed,
                     unsigned workers);

// Reads the whole store back and throws Error at the first difference.
void expect_equal(StateStore& store, const Model& model);

}  // namespace shoal::testing
