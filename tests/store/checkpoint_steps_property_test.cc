// Checkpoints in two steps against a model: random rounds, moves, prepares, commits and reopenings at either epoch.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "store/memory_device.h"
#include "tests/store/store_harness.h"

namespace shoal::testing {
namespace {

// SHOAL_PROPERTY_STORES=5000 for a long run.
unsigned store_count() {
  const char* text = std::getenv("SHOAL_PROPERTY_STORES");
  return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : 25;
}

enum class Kind { kUring, kPosix, kMapped, kMemory };

class CheckpointStepsProperty : public ::testing::TestWithParam<Kind> {
 protected:
  StoreOptions random_options(const std::filesystem::path& directory, std::mt19937_64& random) {
    StoreOptions options;
    options.directory = directory / "store";
    options.nodes = static_cast<NodeId>(1 + random() % 20);
    options.layout = layout_of(4 + random() % 12000, random() % 4 == 0 ? 0 : random() % 12000);
    options.max_reads_per_step = random() % 4;
    const std::uint64_t state = options.nodes * options.layout.state_bytes();
    if (random() % 2 == 0 && GetParam() != Kind::kMapped) options.warm_bytes = random() % (2 * state);
    options.ram_bytes = StateStore::minimum_ram(options) + random() % (2 * state);
    options.io = GetParam() == Kind::kUring    ? IoEngine::kDirect
                 : GetParam() == Kind::kMapped ? IoEngine::kMapped
                                               : IoEngine::kPosix;
    if (GetParam() == Kind::kMemory) {
      options.device_hook = [files = std::make_shared<MemoryFiles>()](std::unique_ptr<IoDevice>) {
        return make_memory_device(files, {});
      };
    }
    return options;
  }

  void live(std::uint64_t seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    TemporaryDirectory directory(GetParam() == Kind::kUring ? std::filesystem::temp_directory_path()
                                                            : fast_directory());
    StoreOptions options = random_options(directory.path(), random);
    const std::uint64_t state = options.nodes * options.layout.state_bytes();
    auto store = StateStore::create(options);
    Model model(options.nodes, options.layout);
    std::map<std::uint64_t, Model> saved = {{0, model}};  // by epoch: what is there to be opened
    const auto note = [](std::uint64_t epoch) { return fmt::format("epoch {} of it", epoch); };
    for (std::uint64_t step = 0; step < 40; ++step) {
      const bool prepared = saved.size() == 2;
      std::vector<NodeId> some;
      for (NodeId node = 0; node < options.nodes; ++node) {
        if (random() % 3 == 0) some.push_back(node);
      }
      switch (random() % 8) {
        case 0:
          if (prepared) {
            store->commit_checkpoint();
            saved.erase(saved.begin());
          }
          break;
        case 1:
          if (!prepared) {
            const std::uint64_t epoch = store->checkpoint_count() + 1;
            store->prepare_checkpoint(note(epoch));
            saved.insert({epoch, model});
          }
          break;
        case 2: {
          auto chosen = std::next(saved.begin(), static_cast<std::ptrdiff_t>(random() % saved.size()));
          options.open_epoch = chosen->first;
          if (random() % 3 == 0) options.open_epoch.reset();
          if (!options.open_epoch) chosen = std::prev(saved.end());
          store.reset();
          options.ram_bytes = StateStore::minimum_ram(options) + random() % (2 * state);
          store = StateStore::open(options);
          model = chosen->second;
          saved = {{chosen->first, model}};
          ASSERT_LE(store->report().slab_bytes, state);
          expect_equal(*store, model);
          break;
        }
        case 3: ASSERT_THAT(store->verify().problems, ::testing::IsEmpty()); break;
        case 4:
          if (!prepared) store->demote(some);
          break;
        default:
          if (prepared) break;
          const bool first = model.nodes[0].version == 0;
          run_both(
              *store, model,
              first ? creation_plan(options.nodes) : random_plan(options.nodes, options.max_reads_per_step, random),
              seed + step, 2);
      }
      const std::uint64_t committed = saved.begin()->first;
      ASSERT_EQ(store->checkpoint_count(), committed);
      ASSERT_EQ(store->checkpoint_note(), committed == 0 ? "" : note(committed));
    }
  }
};

TEST_P(CheckpointStepsProperty, EveryEpochThatIsThereOpensAsItWasSaved) {
  const unsigned stores = store_count();
  for (std::uint64_t seed = 1; seed <= stores && !HasFatalFailure(); ++seed) {
    live(seed * 1000 + static_cast<std::uint64_t>(GetParam()));
  }
}

std::string kind_name(const ::testing::TestParamInfo<Kind>& kind) {
  constexpr const char* kNames[] = {"uring", "posix", "mapped", "memory"};
  return kNames[static_cast<std::size_t>(kind.param)];
}

INSTANTIATE_TEST_SUITE_P(Devices, CheckpointStepsProperty,
                         ::testing::Values(Kind::kUring, Kind::kPosix, Kind::kMapped, Kind::kMemory), kind_name);

}  // namespace
}  // namespace shoal::testing
