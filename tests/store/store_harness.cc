#include "tests/store/store_harness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "store/error.h"
#include "store/ready_queue.h"

namespace shoal::testing {
namespace {

std::uint32_t scramble(std::uint64_t value) {
  value ^= value >> 33;
  value *= 0xff51afd7ed558ccdULL;
  value ^= value >> 33;
  return static_cast<std::uint32_t>(value >> 16);
}

// What a step does, word by word; `reads` summed up by the caller. Some nodes' private state is all zeros for a while.
struct Rule {
  std::uint64_t seed;
  NodeId node;

  std::uint32_t created(std::size_t w) const { return scramble(seed * 31 + node * 1000003ULL + w) | 1u; }
  std::uint32_t created_private(std::size_t w) const { return node % 3 == 0 ? 0 : created(w + 77); }
  std::uint32_t published(std::uint32_t current, std::uint32_t sum, std::size_t w) const {
    return current * 5 + sum * 3 + scramble(seed + node + w);
  }
  std::uint32_t own(std::uint32_t current, std::size_t w) const {
    return seed % 7 == 3 && node % 5 == 0 ? 0 : current + scramble(seed ^ (node * 7919ULL + w));
  }
};

const std::uint32_t* words(const std::byte* payload) { return reinterpret_cast<const std::uint32_t*>(payload); }

void require_same(const std::byte* payload, const Words& expected, std::string_view what, NodeId node) {
  const std::uint32_t* got = words(payload);
  const auto at = std::mismatch(expected.begin(), expected.end(), got).first - expected.begin();
  if (at == std::ssize(expected)) return;
  throw Error(fmt::format("{} of node {} differs at word {}: {:#x} instead of {:#x}", what, node, at, got[at],
                          expected[static_cast<std::size_t>(at)]));
}

void work(NodeLease& lease, const AccessPlan& plan, const Model& before, std::uint64_t seed,
          const std::vector<NodeId>& names) {
  const auto name = [&](NodeId number) { return names.empty() ? number : names[number]; };
  const NodeId node = name(lease.node());
  const auto reads = plan.reads(lease.step());
  for (std::size_t k = 0; k < reads.size(); ++k) {
    require_same(lease.read(k), before.nodes[name(reads[k])].published, "a read", name(reads[k]));
  }
  if (reads_own(lease.kind())) {
    require_same(lease.current(), before.nodes[node].published, "the public state", node);
    require_same(lease.private_state(), before.nodes[node].own, "the private state", node);
    if (lease.version() != before.nodes[node].version) throw Error(fmt::format("node {} has the wrong version", node));
  }
  if (!writes(lease.kind())) return;
  const Rule rule{seed, node};
  auto* next = reinterpret_cast<std::uint32_t*>(lease.next());
  auto* own = reinterpret_cast<std::uint32_t*>(lease.private_state());
  const bool create = lease.kind() == StepKind::kCreate;
  if (create) require_same(lease.private_state(), Words(before.private_words, 0), "a new private state", node);
  for (std::size_t w = 0; w < before.public_words; ++w) {
    std::uint32_t sum = 0;
    for (std::size_t k = 0; k < reads.size(); ++k) sum += words(lease.read(k))[w];
    next[w] = create ? rule.created(w) : rule.published(words(lease.current())[w], sum, w);
  }
  for (std::size_t w = 0; w < before.private_words; ++w)
    own[w] = create ? rule.created_private(w) : rule.own(own[w], w);
  lease.commit();
}

}  // namespace

Model::Model(NodeId count, const StateLayout& layout)
    : nodes(count),
      public_words(layout.payload_bytes(Part::kPublic) / sizeof(std::uint32_t)),
      private_words(layout.payload_bytes(Part::kPrivate) / sizeof(std::uint32_t)) {}

void Model::run(const AccessPlan& plan, std::uint64_t seed) {
  std::vector<std::pair<NodeId, ModelNode>> changed;
  for (std::size_t step = 0; step < plan.size(); ++step) {
    if (!writes(plan.kind(step))) continue;
    const NodeId node = plan.node(step);
    const Rule rule{seed, node};
    ModelNode after{nodes[node].version + 1, Words(public_words), Words(private_words)};
    const bool create = plan.kind(step) == StepKind::kCreate;
    for (std::size_t w = 0; w < public_words; ++w) {
      std::uint32_t sum = 0;
      for (const NodeId read : plan.reads(step)) sum += nodes[read].published[w];
      after.published[w] = create ? rule.created(w) : rule.published(nodes[node].published[w], sum, w);
    }
    for (std::size_t w = 0; w < private_words; ++w) {
      after.own[w] = create ? rule.created_private(w) : rule.own(nodes[node].own[w], w);
    }
    changed.emplace_back(node, std::move(after));
  }
  for (auto& [node, after] : changed) nodes[node] = std::move(after);
}

StateLayout layout_of(std::uint64_t public_bytes, std::uint64_t private_bytes) {
  return StateLayout({{"x", DType::kFloat32, {static_cast<std::int64_t>(public_bytes / 4)}, Part::kPublic},
                      {"m", DType::kFloat32, {static_cast<std::int64_t>(private_bytes / 4)}, Part::kPrivate}});
}

std::shared_ptr<const AccessPlan> creation_plan(NodeId nodes) {
  auto plan = std::make_shared<AccessPlan>();
  plan->reserve(nodes, 0);
  for (NodeId node = 0; node < nodes; ++node) plan->add(StepKind::kCreate, node);
  return plan;
}

std::shared_ptr<const AccessPlan> random_plan(NodeId nodes, std::size_t max_reads, std::mt19937_64& random) {
  std::vector<NodeId> order(nodes);
  std::iota(order.begin(), order.end(), NodeId{0});
  std::shuffle(order.begin(), order.end(), random);
  order.resize(1 + random() % nodes);
  auto plan = std::make_shared<AccessPlan>();
  plan->reserve(order.size(), order.size() * max_reads);
  std::vector<NodeId> reads;
  for (const NodeId node : order) {
    reads.resize(random() % (max_reads + 1));
    for (NodeId& read : reads) read = static_cast<NodeId>(random() % nodes);  // itself and repetitions included
    const auto dice = random() % 10;
    const StepKind kind = dice == 0   ? StepKind::kCreate
                          : dice == 1 ? StepKind::kInspect
                          : dice == 2 ? StepKind::kRead
                                      : StepKind::kUpdate;
    plan->add(kind, node, reads);
  }
  return plan;
}

std::shared_ptr<const AccessPlan> gossip_plan(NodeId nodes, std::size_t degree, std::mt19937_64& random) {
  auto plan = std::make_shared<AccessPlan>();
  plan->reserve(nodes, nodes * degree);
  std::vector<NodeId> reads(degree);
  for (NodeId node = 0; node < nodes; ++node) {
    for (NodeId& read : reads) read = static_cast<NodeId>(random() % nodes);
    plan->add(StepKind::kUpdate, node, reads);
  }
  return plan;
}

RoundReport run_round(StateStore& store, const AccessPlan& plan, const Model& before, std::uint64_t seed,
                      unsigned workers, const RankView& rank) {
  ReadyQueue queue;
  std::exception_ptr error;
  std::mutex error_mutex;
  store.begin_round([&](NodeLease lease) { queue.push(std::move(lease)); }, [&] { queue.close(); });
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < workers; ++i) {
    threads.emplace_back([&] {
      while (auto lease = queue.pop()) {
        try {
          work(*lease, plan, before, seed, rank.names);
        } catch (...) {
          const std::scoped_lock lock(error_mutex);
          if (!error) error = std::current_exception();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (rank.when_done) rank.when_done();
  if (error) {
    try {
      store.end_round();
    } catch (const Error&) {
    }
    std::rethrow_exception(error);
  }
  return store.end_round();
}

RoundReport run_both(StateStore& store, Model& model, std::shared_ptr<const AccessPlan> plan, std::uint64_t seed,
                     unsigned workers) {
  store.plan(plan);
  const RoundReport report = run_round(store, *plan, model, seed, workers);
  model.run(*plan, seed);
  return report;
}

void expect_equal(StateStore& store, const Model& model) {
  auto plan = std::make_shared<AccessPlan>();
  for (NodeId node = 0; node < model.nodes.size(); ++node) {
    if (store.version(node) != model.nodes[node].version) {
      throw Error(
          fmt::format("node {} has version {} instead of {}", node, store.version(node), model.nodes[node].version));
    }
    if (model.nodes[node].version > 0) plan->add(StepKind::kInspect, node);
  }
  if (plan->size() == 0) return;
  store.plan(plan);
  run_round(store, *plan, model, 0, 1);
}

}  // namespace shoal::testing
