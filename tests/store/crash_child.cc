// Runs rounds and checkpoints until somebody kills it: shoal's crash tests do, with SIGKILL, at a random moment.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "store/manifest.h"
#include "tests/store/crash_scenario.h"
#include "tests/store/killed_child.h"

int main(int argc, char** argv) {
  using namespace shoal;
  if (argc != 3) return 2;
  try {
    const testing::CrashScenario scenario{std::strtoull(argv[2], nullptr, 10)};
    const StoreOptions options = scenario.options(argv[1]);
    auto store = Manifest::exists(argv[1]) ? StateStore::open(options) : StateStore::create(options);
    // Tells the test how far it has come, so that it knows what to expect, and that on a slow machine, too, it does not
    // always kill before anything was done.
    if (!testing::tell_parent(testing::CrashScenario::committed(store->checkpoint_count()))) return 1;
    testing::Model model(scenario.nodes, options.layout);
    const std::uint64_t first = testing::CrashScenario::round_after(store->checkpoint_note());
    for (std::uint64_t round = 0; round < first; ++round) model.run(*scenario.plan(round), round);
    for (std::uint64_t round = first;; ++round) {
      run_both(*store, model, scenario.plan(round), round, 2);
      auto random = scenario.random(~round);
      if (random() % 4 == 0) {
        std::vector<NodeId> some;
        for (NodeId node = 0; node < scenario.nodes; ++node) {
          if (random() % 3 == 0) some.push_back(node);
        }
        store->demote(some);
      }
      if (random() % 2 == 0) {
        store->prepare_checkpoint(std::to_string(round + 1));
        if (!testing::tell_parent(testing::CrashScenario::prepared(store->checkpoint_count() + 1))) return 1;
        store->commit_checkpoint();
        if (!testing::tell_parent(testing::CrashScenario::committed(store->checkpoint_count()))) return 1;
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "crash child: %s\n", error.what());
    return 1;
  }
}
