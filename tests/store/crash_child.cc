// Runs rounds and checkpoints until somebody kills it: shoal's crash test does, with SIGKILL, at a random moment.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "store/manifest.h"
#include "tests/store/crash_scenario.h"

int main(int argc, char** argv) {
  using namespace shoal;
  if (argc != 3) return 2;
  try {
    const testing::CrashScenario scenario{std::strtoull(argv[2], nullptr, 10)};
    const StoreOptions options = scenario.options(argv[1]);
    auto store = Manifest::exists(argv[1]) ? StateStore::open(options) : StateStore::create(options);
    // Tells the test how far it has come, so that on a slow machine, too, it is not always killed before it did
    // anything.
    const auto tell = [] { return std::fputc('.', stdout) != EOF && std::fflush(stdout) == 0; };
    if (!tell()) return 1;
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
        store->checkpoint(std::to_string(round + 1));
        if (!tell()) return 1;
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "crash child: %s\n", error.what());
    return 1;
  }
}
