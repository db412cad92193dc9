// Ranks of which one fails, or several: mpirun -np 3 failing-ranks HOW. See failing_ranks_test.cc.
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "comm/arena_window.h"
#include "comm/communicator.h"
#include "comm/neighbour_reads.h"
#include "store/error.h"
#include "store/faulty_device.h"
#include "store/memory_device.h"
#include "store/memory_plan.h"
#include "store/state_store.h"

namespace shoal {
namespace {

// Where there is an end at all, it comes before this.
constexpr std::chrono::minutes kForever(5);

std::string message(const Communicator& ranks, const std::string& what) {
  return fmt::format("shoal-train: {}: {}", ranks.name(), what);
}

void wait_in_a_sum(Communicator& ranks) {
  std::int64_t number = 1;
  ranks.sum(std::span(&number, 1));
}

void one(Communicator& ranks) {
  if (ranks.rank() == 2) ranks.fail(message(ranks, "it fails"), ExitCode::kFailure);
  wait_in_a_sum(ranks);
}

void rank_0(Communicator& ranks) {
  if (ranks.first()) ranks.fail(message(ranks, "it fails"), ExitCode::kUsage);
  wait_in_a_sum(ranks);
}

void all(Communicator& ranks) { ranks.fail(message(ranks, "it fails"), ExitCode::kFailure); }

// The main thread waits for others, and fails itself when they are gone.
void thread(Communicator& ranks) {
  if (ranks.rank() != 1) std::this_thread::sleep_for(kForever);
  const std::jthread other([&] { ranks.fail(message(ranks, "it fails"), ExitCode::kFailure); });
  wait_in_a_sum(ranks);
}

void two_threads(Communicator& ranks) {
  if (ranks.rank() != 1) std::this_thread::sleep_for(kForever);
  const std::jthread other([&] { ranks.fail(message(ranks, "it fails"), ExitCode::kFailure); });
  ranks.fail(message(ranks, "it fails"), ExitCode::kFailure);
}

void not_agreed(Communicator& ranks) {
  const auto error = ranks.rank() == 1 ? std::make_exception_ptr(Error("it fails")) : nullptr;
  try {
    ranks.agree(error);
  } catch (const Error& caught) {
    ranks.fail(message(ranks, caught.what()), caught.exit_code());
  }
  ranks.fail(message(ranks, "it went on"), ExitCode::kFailure);
}

// Rank 0 hears nothing, as if it were waiting inside of MPI.
void unheard(Communicator& ranks) {
  if (ranks.first()) {
    ranks.run([] {
      std::this_thread::sleep_for(kForever);
      return true;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  ranks.fail(message(ranks, "it fails"), ExitCode::kFailure);
}

// Rank 1 has done its part and waits in a sum; its store gets an I/O error from a record that rank 0 asks for.
void serving(Communicator& ranks) {
  constexpr NodeId kNodes = 40;
  StoreOptions options;
  options.layout = StateLayout(
      {{"weights", DType::kFloat32, {3000}, Part::kPublic}, {"momentum", DType::kFloat32, {3000}, Part::kPrivate}});
  options.nodes = kNodes;
  options.guests = kNodes;
  options.serving_frames = 1;
  options.directory = fmt::format("store-{}", ranks.rank());
  options.io = IoEngine::kPosix;
  options.ram_bytes = 1;
  options.ram_bytes = MemoryPlan::minimum(options);
  const auto script = std::make_shared<FaultScript>();
  options.device_hook = [&](std::unique_ptr<IoDevice>) {
    return make_faulty_device(make_memory_device(std::make_shared<MemoryFiles>(), {}), script);
  };
  options.on_failure = [&](const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& caught) {
      ranks.fail(message(ranks, caught.what()), ExitCode::kFailure);
    }
  };
  const std::uint64_t arena = MemoryPlan::for_options(options).arena;
  ArenaWindow window(ranks, NeighbourReads::head_bytes(kNodes) + arena, HostReads::kMapped, arena);
  std::vector<NeighbourReads::Guest> guests;
  for (NodeId node = 0; node < kNodes; ++node) guests.push_back({(ranks.rank() + 1) % ranks.size(), node});
  NeighbourReads reads(ranks, window, {guests, std::vector<NodeId>(ranks.size(), kNodes), options.layout});
  options.region = reads.arena();
  options.peers = &reads;
  options.listing = reads.directory();
  const auto store = StateStore::create(options);
  reads.connect(store->id());
  auto create = std::make_shared<AccessPlan>();
  for (NodeId node = 0; node < kNodes; ++node) create->add(StepKind::kCreate, node);
  store->plan(create);
  store->begin_round([](NodeLease lease) {
    lease.next()[0] = std::byte{1};
    lease.commit();
  });
  store->end_round();
  if (ranks.rank() == 1) script->fail(1, Fault::kIoError, DeviceOperation::kRead);
  ranks.barrier();
  if (ranks.first()) {
    reads.expect(std::vector<Version>(kNodes, 1));
    auto read = std::make_shared<AccessPlan>();
    for (NodeId node = 0; node < kNodes; ++node) {
      const NodeId guest = kNodes + node;
      read->add(StepKind::kRead, node, std::span(&guest, 1));
    }
    store->plan(read);
    store->begin_round([](NodeLease lease) { lease.commit(); });
    store->end_round();
    ranks.fail(message(ranks, "it went on"), ExitCode::kFailure);
  }
  wait_in_a_sum(ranks);
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  using namespace shoal;
  const std::map<std::string, void (*)(Communicator&)> ways = {
      {"one", one},         {"rank-0", rank_0},           {"all", all},
      {"thread", thread},   {"two-threads", two_threads}, {"not-agreed", not_agreed},
      {"unheard", unheard}, {"serving", serving},
  };
  SHOAL_CHECK(argc == 2);
  Communicator ranks;
  ways.at(argv[1])(ranks);
  return 0;
}
