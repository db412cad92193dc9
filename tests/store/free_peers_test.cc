// Stores whose ranks do not wait for each other, and stores whose peer has failed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>

#include "store/error.h"
#include "store/faulty_device.h"
#include "store/memory_device.h"
#include "store/ready_queue.h"
#include "tests/store/peer_group.h"
#include "tests/store/store_harness.h"

namespace shoal::testing {
namespace {

constexpr std::size_t kWords = 3000;

std::uint32_t word(NodeId node, Version version, std::size_t at) {
  return static_cast<std::uint32_t>(version << 16) ^ static_cast<std::uint32_t>(node * 2654435761u + at * 40503u);
}

// The version of a record that is whole; 0 when it is not.
Version version_of(const std::byte* record, NodeId node) {
  const auto* words = reinterpret_cast<const std::uint32_t*>(record);
  const Version version = (words[0] ^ word(node, 0, 0)) >> 16;
  for (std::size_t at = 0; at < kWords; ++at) {
    if (words[at] != word(node, version, at)) return 0;
  }
  return version;
}

void write(std::byte* record, NodeId node, Version version) {
  auto* words = reinterpret_cast<std::uint32_t*>(record);
  for (std::size_t at = 0; at < kWords; ++at) words[at] = word(node, version, at);
}

// Stores on memory, with little RAM.
struct Ranks {
  Ranks(NodeId nodes, unsigned ranks, std::size_t reads, const PeerSettings& settings, std::uint64_t spare_records)
      : random(settings.seed), owner(random_owners(nodes, ranks, random)), group(owner, ranks, settings) {
    for (unsigned rank = 0; rank < ranks; ++rank) {
      StoreOptions options;
      options.directory = directory.path() / std::to_string(rank);
      options.layout = layout_of(kWords * 4, 100);
      options.max_reads_per_step = reads;
      options.io = IoEngine::kPosix;
      scripts.push_back(std::make_shared<FaultScript>());
      options.device_hook = [script = scripts.back()](std::unique_ptr<IoDevice>) {
        return make_faulty_device(make_memory_device(std::make_shared<MemoryFiles>(), {}), script);
      };
      group.count(rank, options);
      options.ram_bytes = StateStore::minimum_ram(options) + spare_records * options.layout.record_bytes(Part::kPublic);
      group.join(rank, options);
      stores.push_back(StateStore::create(options));
      group.connect(rank, stores.back()->id());
    }
  }

  // Plans and begins the rank's part of the round; steps are done as they come, on the engine's thread.
  void begin(unsigned rank, const AccessPlan& round, PeerGroup::Hold hold, std::function<void(const NodeLease&)> look,
             std::function<void()> done = {}) {
    stores[rank]->plan(group.share(round, rank, hold));
    stores[rank]->begin_round(
        [this, rank, look = std::move(look)](NodeLease lease) {
          if (look) look(lease);
          if (writes(lease.kind())) write(lease.next(), group.names(rank)[lease.node()], lease.version() + 1);
          lease.commit();
        },
        std::move(done));
  }

  void create_all(NodeId nodes) {
    for (unsigned rank = 0; rank < stores.size(); ++rank) {
      begin(rank, *creation_plan(nodes), PeerGroup::Hold::kNothing, {});
    }
    for (auto& store : stores) store->end_round();
  }

  std::mt19937_64 random;
  std::vector<unsigned> owner;
  TemporaryDirectory directory{fast_directory()};
  PeerGroup group;
  std::vector<std::shared_ptr<FaultScript>> scripts;
  std::vector<std::unique_ptr<StateStore>> stores;
};

class FreePeers : public ::testing::TestWithParam<ReadPath> {};

// What is read is whole, was committed, and is never older than what was read in a round before.
TEST_P(FreePeers, ReadWholeRecordsThatNeverGoBackWhileTheirOwnersReplaceAndEvictThem) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr std::uint64_t kRounds = 15;
#else
  constexpr std::uint64_t kRounds = 150;
#endif
  constexpr NodeId kNodes = 24;
  for (const std::uint64_t spare : {0u, 6u, 100u}) {
    for (const auto hold : {PeerGroup::Hold::kWhatOthersRead, PeerGroup::Hold::kNothing}) {
      const Watchdog watchdog(fmt::format("free-running, {} records to spare", spare));
      Ranks ranks(kNodes, 3, 3, {GetParam(), spare == 6, spare + 1}, spare);
      ranks.create_all(kNodes);
      std::atomic<unsigned> torn{0};
      std::atomic<unsigned> back{0};
      std::atomic<std::uint64_t> newer{0};
      std::vector<std::thread> drivers;
      for (unsigned rank = 0; rank < 3; ++rank) {
        drivers.emplace_back([&, rank, random = std::mt19937_64(rank)]() mutable {
          std::vector<Version> seen(kNodes, 1);
          for (std::uint64_t i = 0; i < kRounds; ++i) {
            const auto round = gossip_plan(kNodes, 3, random);
            const auto plan = ranks.group.share(*round, rank, hold);
            std::vector<Version> now = seen;
            ranks.begin(rank, *round, hold, [&](const NodeLease& lease) {
              for (std::size_t k = 0; k < lease.reads(); ++k) {
                const NodeId node = ranks.group.names(rank)[plan->reads(lease.step())[k]];
                const Version version = version_of(lease.read(k), node);
                torn += version == 0 || version > kRounds + 1 ? 1 : 0;
                back += version < seen[node] ? 1 : 0;
                newer += version > i + 1 ? 1 : 0;
                now[node] = std::max(now[node], version);
              }
            });
            ranks.stores[rank]->end_round();
            seen = now;
            if (i % 16 == rank) ranks.stores[rank]->checkpoint("");
          }
        });
      }
      for (std::thread& driver : drivers) driver.join();
      EXPECT_EQ(torn, 0u);
      EXPECT_EQ(back, 0u);
      EXPECT_GT(newer, 0u) << "no rank was ever ahead of another";
      for (auto& store : ranks.stores) EXPECT_THAT(store->verify().problems, ::testing::IsEmpty());
    }
  }
}

// The error comes out where it happened; the others wait for what will never come, and can be destroyed.
TEST_P(FreePeers, AreDestroyedCleanlyWhenOneHasFailed) {
  constexpr NodeId kNodes = 18;
  for (std::uint64_t nth = 1; nth <= 6; ++nth) {
    const Watchdog watchdog(fmt::format("operation {} fails", nth));
    Ranks ranks(kNodes, 3, 2, {GetParam(), nth % 2 == 0, nth}, 0);
    ranks.create_all(kNodes);
    ranks.scripts[1]->fail(ranks.scripts[1]->operations() + nth, Fault::kIoError);
    const auto round = gossip_plan(kNodes, 2, ranks.random);
    std::promise<void> done;
    for (const unsigned rank : {0u, 2u}) ranks.begin(rank, *round, PeerGroup::Hold::kWhatOthersRead, {});
    try {
      ranks.begin(1, *round, PeerGroup::Hold::kWhatOthersRead, {}, [&] { done.set_value(); });
      done.get_future().wait();
    } catch (const Error&) {
      // Its first operation came with the beginning.
    }
    EXPECT_THAT([&] { ranks.stores[1]->end_round(); }, ::testing::ThrowsMessage<Error>(::testing::HasSubstr(".slab")));
    ranks.stores[nth % 3].reset();
    ranks.stores.clear();
  }
}

std::string path_name(const ::testing::TestParamInfo<ReadPath>& path) {
  constexpr const char* kNames[] = {"mapped", "one_sided", "ask"};
  return kNames[static_cast<std::size_t>(path.param)];
}

INSTANTIATE_TEST_SUITE_P(Paths, FreePeers, ::testing::Values(ReadPath::kMapped, ReadPath::kOneSided, ReadPath::kAsk),
                         path_name);

}  // namespace
}  // namespace shoal::testing
