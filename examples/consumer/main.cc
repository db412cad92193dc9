// The first thing to do with a store: create a population of eight nodes, let each mix with its neighbours on a ring
// for a round, make it durable, and find it again.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/error.h"
#include "store/ready_queue.h"
#include "store/size_text.h"
#include "store/state_store.h"

using namespace shoal;

constexpr NodeId kNodes = 8;

// Plans a round in which each node takes one step of this kind, reading the neighbours on its left and right if it is
// an update, and runs `work` on each node's memory as it becomes ready.
template <typename Work>
RoundReport run_round(StateStore& store, StepKind kind, const Work& work) {
  auto plan = std::make_shared<AccessPlan>();
  for (NodeId node = 0; node < kNodes; ++node) {
    const std::vector<NodeId> neighbours = {(node + kNodes - 1) % kNodes, (node + 1) % kNodes};
    plan->add(kind, node, kind == StepKind::kUpdate ? neighbours : std::vector<NodeId>{});
  }
  store.plan(plan);
  ReadyQueue queue;  // any number of threads may pop; here it is this one
  store.begin_round([&](NodeLease lease) { queue.push(std::move(lease)); }, [&] { queue.close(); });
  while (auto lease = queue.pop()) {
    work(*lease);
    lease->commit();
  }
  return store.end_round();  // now everybody sees the new versions
}

float& weight(std::byte* record) { return *reinterpret_cast<float*>(record); }
float weight(const std::byte* record) { return *reinterpret_cast<const float*>(record); }
std::int64_t& steps(std::byte* record) { return *reinterpret_cast<std::int64_t*>(record); }

int main() {
  std::string directory = std::filesystem::temp_directory_path() / "shoal-consumer-XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) return 1;
  try {
    StoreOptions options;
    options.directory = directory + "/store";
    options.nodes = kNodes;
    options.layout = StateLayout({{"weight", DType::kFloat32, {1}, Part::kPublic},  // neighbours read it
                                  {"steps", DType::kInt64, {1}, Part::kPrivate}});  // nobody else does
    options.ram_bytes = parse_size("64MiB");                                        // all that the store may use

    {
      const auto store = StateStore::create(options);
      run_round(*store, StepKind::kCreate, [](NodeLease& node) { weight(node.next()) = float(node.node()); });
      run_round(*store, StepKind::kUpdate, [](NodeLease& node) {
        weight(node.next()) = (weight(node.read(0)) + weight(node.current()) + weight(node.read(1))) / 3;
        steps(node.private_state()) += 1;
      });
      store->checkpoint("one round of mixing");
    }

    const auto store = StateStore::open(options);
    std::printf("%u nodes after %s, in %s of RAM:\n", store->nodes(), store->checkpoint_note().c_str(),
                size_text(options.ram_bytes).c_str());
    run_round(*store, StepKind::kInspect, [](NodeLease& node) {
      std::printf("  node %u has taken %d step: weight %.3f\n", node.node(), int(steps(node.private_state())),
                  weight(node.current()));
    });
  } catch (const Error& error) {
    std::fprintf(stderr, "consumer: %s\n", error.what());
    return static_cast<int>(error.exit_code());
  }
  std::filesystem::remove_all(directory);
}
