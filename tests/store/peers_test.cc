// Stores of several ranks that read each other's records, against one model of the whole population.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "store/error.h"
#include "store/memory_device.h"
#include "store/memory_plan.h"
#include "store/use_index.h"
#include "tests/store/peer_group.h"
#include "tests/store/store_harness.h"

namespace shoal::testing {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kPopulations = 8;
#else
constexpr std::uint64_t kPopulations = 25;
#endif

enum class Device { kUring, kPosix, kMemory };

// What the ranks' stores have in common.
struct Scene {
  unsigned ranks = 2;
  NodeId nodes = 10;
  std::size_t reads = 3;
  Device device = Device::kMemory;
  PeerSettings peers;
  bool least_ram = false;
  bool ample_ram = false;
  bool resident_ram = false;  // just as much as the stores say that these rounds take; and nothing between rounds
  bool cold = false;          // little room in the slabs: records go to the cold tier and come back
  bool all_remote = false;    // a node reads nodes of other ranks only
  bool all_act = false;       // every node, in every round
  unsigned serving = 1;
  std::uint64_t rounds = 6;
  std::uint64_t seed = 1;
};

// A population over several stores, and a driver thread for each.
class Population {
 public:
  explicit Population(const Scene& scene)
      : scene_(scene),
        random_(scene.seed),
        owner_(random_owners(scene.nodes, scene.ranks, random_)),
        layout_(layout_of(4 + random_() % 9000, random_() % 4 == 0 ? 0 : random_() % 9000)),
        directory_(scene.device == Device::kMemory ? fast_directory() : std::filesystem::temp_directory_path()),
        group_(owner_, scene.ranks, scene.peers),
        model_(scene.nodes, layout_) {
    rounds_.push_back(creation_plan(scene_.nodes));
    while (rounds_.size() <= scene_.rounds) rounds_.push_back(round());
    for (unsigned rank = 0; rank < scene.ranks; ++rank) {
      options_.push_back(options(rank));
      stores_.push_back(StateStore::create(options_.back()));
      group_.connect(rank, stores_.back()->id());
    }
  }

  // All rounds on all ranks; the stores end each together, but go on without waiting for each other.
  void live() {
    std::vector<Model> models = {model_};
    for (std::size_t i = 0; i < rounds_.size(); ++i) {
      models.push_back(models.back());
      models.back().run(*rounds_[i], scene_.seed + i);
    }
    std::barrier<> everywhere(scene_.ranks);
    std::vector<std::thread> drivers;
    for (unsigned rank = 0; rank < scene_.ranks; ++rank) {
      drivers.emplace_back([&, rank, chance = random_()] {
        try {
          drive(rank, models, everywhere, chance);
        } catch (const std::exception& error) {
          // The others cannot go on without this one.
          std::fprintf(stderr, "rank %u of population %lu: %s\n", rank, scene_.seed, error.what());
          std::abort();
        }
      });
    }
    for (std::thread& driver : drivers) driver.join();
  }

  std::uint64_t asks() {
    std::uint64_t sum = 0;
    for (unsigned rank = 0; rank < scene_.ranks; ++rank) sum += group_.peer(rank).asks();
    return sum;
  }
  std::uint64_t read_in_place() {
    std::uint64_t sum = 0;
    for (unsigned rank = 0; rank < scene_.ranks; ++rank) sum += group_.peer(rank).read_in_place();
    return sum;
  }
  std::uint64_t being_read_in_place() {
    std::uint64_t sum = 0;
    for (unsigned rank = 0; rank < scene_.ranks; ++rank) sum += group_.peer(rank).being_read_in_place();
    return sum;
  }
  std::uint64_t fetches() const { return fetches_; }
  std::uint64_t moved() const { return moved_; }

 private:
  StoreOptions options(unsigned rank) {
    StoreOptions options;
    options.directory = directory_.path() / std::to_string(rank);
    options.layout = layout_;
    options.max_reads_per_step = scene_.reads;
    options.rounds_ahead = 2;
    options.serving_frames = scene_.serving;
    options.io = scene_.device == Device::kUring ? IoEngine::kDirect : IoEngine::kPosix;
    options.queue_depth = static_cast<unsigned>(1 + random_() % 16);
    options.relaxed_queue_depth = static_cast<unsigned>(1 + random_() % 64);
    options.submit_batch = static_cast<unsigned>(1 + random_() % 32);
    options.workers = static_cast<unsigned>(random_() % 2);
    if (random_() % 2 == 0) options.prefetch_bytes = 1 + random_() % 100000;
    group_.count(rank, options);
    const std::uint64_t state = options.nodes * layout_.state_bytes();
    if (scene_.cold) options.warm_bytes = random_() % (2 * state);
    options.ram_bytes = StateStore::minimum_ram(options) + (scene_.least_ram ? 0 : random_() % (3 * state));
    if (scene_.ample_ram) options.ram_bytes += 10 * scene_.nodes * layout_.state_bytes() + (64 << 20);
    if (scene_.resident_ram) {
      options.old_versions = 0;
      for (const auto& round : rounds_) {
        const UseIndex index(group_.share(*round, rank), options.nodes, options.guests);
        options.old_versions = std::max(*options.old_versions, index.extra_versions());
      }
      options.ram_bytes = MemoryPlan::resident_ram(options);
    }
    if (scene_.device == Device::kMemory) {
      options.device_hook = [files = std::make_shared<MemoryFiles>()](std::unique_ptr<IoDevice>) {
        return make_memory_device(files, {});
      };
    }
    group_.join(rank, options);
    return options;
  }

  std::shared_ptr<const AccessPlan> round() {
    if (!scene_.all_remote) {
      return scene_.all_act ? gossip_plan(scene_.nodes, scene_.reads, random_)
                            : random_plan(scene_.nodes, scene_.reads, random_);
    }
    auto plan = std::make_shared<AccessPlan>();
    for (NodeId node = 0; node < scene_.nodes; ++node) {
      std::vector<NodeId> reads;
      while (reads.size() < scene_.reads) {
        const auto read = static_cast<NodeId>(random_() % scene_.nodes);
        if (owner_[read] != owner_[node]) reads.push_back(read);
      }
      plan->add(StepKind::kUpdate, node, reads);
    }
    return plan;
  }

  void drive(unsigned rank, const std::vector<Model>& models, std::barrier<>& everywhere, std::uint64_t chance) {
    std::mt19937_64 random(chance);
    StateStore& store = *stores_[rank];
    const RankView view{group_.names(rank), [&] { everywhere.arrive_and_wait(); }};
    std::uint64_t moved = 0;
    std::uint64_t bound = 0;
    const auto run = [&](std::shared_ptr<const AccessPlan> plan, const Model& before, std::uint64_t seed) {
      store.plan(plan);
      std::vector<Version> versions;
      for (std::size_t i = group_.own(rank); i < view.names.size(); ++i) {
        versions.push_back(before.nodes[view.names[i]].version);
      }
      group_.peer(rank).expect(std::move(versions));
      const RoundReport report = run_round(store, *plan, before, seed, static_cast<unsigned>(1 + random() % 2), view);
      SHOAL_CHECK(report.guest_fetches >= report.guests);
      fetches_ += report.guest_fetches;
      moved += report.slab_bytes_read + report.slab_bytes_written + report.cold_bytes_read + report.cold_bytes_written;
      bound += report.lower_bound_bytes;
      if (bound > moved) throw Error(fmt::format("{} bytes were moved, but {} are the least", moved, bound));
      std::uint64_t charged = 0;
      const StoreReport sizes = store.report();
      for (const std::uint64_t bytes : sizes.memory) charged += bytes;
      if (charged > options_[rank].ram_bytes) throw Error(fmt::format("{} bytes are charged", charged));
    };
    for (std::size_t i = 0; i < rounds_.size(); ++i) {
      run(group_.share(*rounds_[i], rank), models[i], scene_.seed + i);
      if (!scene_.resident_ram) between_rounds(store, random);
    }
    auto inspection = std::make_shared<AccessPlan>();
    for (NodeId node = 0; node < group_.own(rank); ++node) {
      if (store.version(node) != models.back().nodes[view.names[node]].version) {
        throw Error(fmt::format("node {} has the wrong version", view.names[node]));
      }
      inspection->add(StepKind::kInspect, node);
    }
    run(inspection, models.back(), 0);
    moved_ += moved;
  }

  // While others may be asking for the next round already.
  void between_rounds(StateStore& store, std::mt19937_64& random) {
    std::vector<NodeId> some;
    for (NodeId node = 0; node < store.nodes(); ++node) {
      if (random() % 3 == 0) some.push_back(node);
    }
    switch (random() % 6) {
      case 0: store.checkpoint("a round"); break;
      case 1: store.demote(some); break;
      case 2:
        if (const VerifyReport report = store.verify(); !report.problems.empty()) throw Error(report.problems[0]);
        break;
      default: break;
    }
  }

  const Scene scene_;
  std::mt19937_64 random_;
  const std::vector<unsigned> owner_;
  const StateLayout layout_;
  const TemporaryDirectory directory_;
  PeerGroup group_;
  Model model_;
  std::vector<std::shared_ptr<const AccessPlan>> rounds_;
  std::vector<StoreOptions> options_;
  std::vector<std::unique_ptr<StateStore>> stores_;
  std::atomic<std::uint64_t> fetches_{0};
  std::atomic<std::uint64_t> moved_{0};
};

class Peers : public ::testing::TestWithParam<Device> {};

TEST_P(Peers, MakeThePopulationThatOneModelMakesOverRandomSplitsPlansAndBudgets) {
  std::uint64_t fetches = 0;
  for (std::uint64_t seed = 1; seed <= kPopulations; ++seed) {
    std::mt19937_64 random(seed);
    Scene scene;
    scene.ranks = std::vector<unsigned>{2, 3, 5}[random() % 3];
    scene.nodes = static_cast<NodeId>(scene.ranks + random() % 30);
    scene.reads = random() % 6;
    scene.device = GetParam();
    scene.peers = {static_cast<ReadPath>(random() % 3), random() % 2 == 0, seed};
    scene.least_ram = random() % 3 == 0;
    scene.cold = random() % 3 == 0;
    scene.all_act = random() % 2 == 0;
    scene.serving = static_cast<unsigned>(1 + random() % 3);
    scene.seed = seed;
    const Watchdog watchdog(fmt::format("population {}", seed));
    Population population(scene);
    population.live();
    fetches += population.fetches();
  }
  EXPECT_GT(fetches, 20 * kPopulations);
}

TEST_P(Peers, WithRamForEverythingReadEachOthersRecordsWhereTheyAre) {
  std::uint64_t in_place = 0;
  for (std::uint64_t seed = 1; seed <= kPopulations; ++seed) {
    Scene scene;
    scene.ranks = static_cast<unsigned>(2 + seed % 3);
    scene.nodes = 30;
    scene.reads = 4;
    scene.device = GetParam();
    scene.peers = {ReadPath::kMapped, seed % 2 == 0, seed};
    if (seed % 3 == 0) scene.peers.most_in_place = 1 + seed % 5;
    scene.ample_ram = true;
    scene.all_act = seed % 2 == 0;
    scene.seed = 2000 + seed;
    const Watchdog watchdog(fmt::format("population {} in RAM", seed));
    Population population(scene);
    population.live();
    in_place += population.read_in_place();
    EXPECT_EQ(population.being_read_in_place(), 0u) << "population " << seed;
  }
  EXPECT_GT(in_place, 20 * kPopulations);
}

TEST_P(Peers, WithTheRamThatEverythingTakesMoveNothingHoweverLateTheOthersAre) {
  std::uint64_t fetches = 0;
  for (std::uint64_t seed = 1; seed <= kPopulations; ++seed) {
    Scene scene;
    scene.ranks = static_cast<unsigned>(2 + seed % 6);
    scene.nodes = 10 * scene.ranks;
    scene.reads = 8;
    scene.device = GetParam();
    scene.peers = {static_cast<ReadPath>(seed % 3), true, seed};
    if (seed % 2 == 0) scene.peers.most_in_place = seed % 6;
    scene.resident_ram = true;
    scene.all_act = seed % 4 != 0;
    scene.all_remote = seed % 5 == 0;
    scene.seed = 3000 + seed;
    const Watchdog watchdog(fmt::format("population {} that just fits", seed));
    Population population(scene);
    population.live();
    EXPECT_EQ(population.moved(), 0u) << "population " << seed;
    fetches += population.fetches();
  }
  EXPECT_GT(fetches, 100 * kPopulations);
}

// Every step waits for others, with no frame to spare, and everything that others read must be brought for them.
TEST_P(Peers, DoNotWaitForEachOtherWithNoFrameToSpare) {
  for (std::uint64_t seed = 1; seed <= kPopulations; ++seed) {
    Scene scene;
    scene.ranks = static_cast<unsigned>(2 + seed % 3);
    scene.nodes = 24;
    scene.reads = 1 + seed % 4;
    scene.device = GetParam();
    scene.peers = {ReadPath::kAsk, seed % 2 == 0, seed};
    scene.least_ram = true;
    scene.cold = seed % 3 == 0;
    scene.all_remote = true;
    scene.seed = 1000 + seed;
    const Watchdog watchdog(fmt::format("starved population {}", seed));
    Population population(scene);
    population.live();
    EXPECT_EQ(population.asks(), population.fetches()) << "all was asked for";
  }
}

std::string device_name(const ::testing::TestParamInfo<Device>& device) {
  constexpr const char* kNames[] = {"uring", "posix", "memory"};
  return kNames[static_cast<std::size_t>(device.param)];
}

INSTANTIATE_TEST_SUITE_P(Devices, Peers, ::testing::Values(Device::kUring, Device::kPosix, Device::kMemory),
                         device_name);

}  // namespace
}  // namespace shoal::testing
