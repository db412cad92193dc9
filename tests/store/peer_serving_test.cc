// One store whose only peer is the test: what it asks for, what it serves and when, message by message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "store/error.h"
#include "store/faulty_device.h"
#include "store/memory_device.h"
#include "store/memory_plan.h"
#include "store/ready_queue.h"
#include "store/record.h"
#include "store/use_index.h"
#include "tests/store/peer_group.h"
#include "tests/store/store_harness.h"

namespace shoal::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// What the test does as the other ranks.
class ScriptedPeers final : public PeerLink {
 public:
  struct Fetch {
    std::uint32_t frame;
    NodeId guest;
    std::byte* record;
  };
  struct Answer {
    ServeRequest request;
    std::uint32_t place;
    Version version;
    std::uint64_t offset;
  };

  void have_all_at_once() { at_once_ = true; }
  Fetch fetched(std::size_t nth) { return wait_for(fetches_, nth); }
  Answer answer(std::size_t nth) { return wait_for(answers_, nth); }
  std::size_t answers() {
    const std::scoped_lock lock(mutex_);
    return answers_.size();
  }
  void ask(NodeId node, Version version = kAnyVersion) {
    tell([&] { news_.asked.push_back({node, version, 7}); });
  }
  void release(const Answer& answer) {
    tell([&] { news_.released.push_back(answer.place); });
  }
  static constexpr std::byte kDamaged{1};
  void arrive(const Fetch& fetch, std::byte content = std::byte{0x5a}) {
    std::memset(fetch.record, static_cast<int>(content), sizeof(RecordHeader));
    tell([&] { news_.arrived.push_back(fetch.frame); });
  }

  bool fetch(std::uint32_t frame, NodeId guest, std::uint64_t, std::byte* record) override {
    const std::scoped_lock lock(mutex_);
    fetches_.push_back({frame, guest, record});
    changed_.notify_all();
    return at_once_;
  }
  const std::byte* in_place(NodeId, std::uint64_t, bool) override { return nullptr; }
  void out_of_place(NodeId, const std::byte*) override {}
  void serve(const ServeRequest& request, std::uint32_t place, Version version, std::uint64_t offset) override {
    const std::scoped_lock lock(mutex_);
    answers_.push_back({request, place, version, offset});
    changed_.notify_all();
  }
  bool has_news() override { return have_news_; }
  void collect(News& news) override {
    news = {};
    const std::scoped_lock lock(mutex_);
    have_news_ = false;
    std::swap(news, news_);
  }
  void verify(NodeId guest, const std::byte* record) const override {
    if (record[0] == kDamaged) throw Error("guest " + std::to_string(guest) + " came damaged");
  }
  void set_wake(std::function<void()> wake) override {
    const std::scoped_lock lock(wake_mutex_);
    wake_ = std::move(wake);
  }

 private:
  template <typename Item>
  Item wait_for(const std::vector<Item>& items, std::size_t nth) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return items.size() > nth; });
    return items[nth];
  }
  void tell(const std::function<void()>& change) {
    {
      const std::scoped_lock lock(mutex_);
      change();
      have_news_ = true;
    }
    const std::scoped_lock lock(wake_mutex_);
    if (wake_) wake_();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool at_once_ = false;
  std::vector<Fetch> fetches_;
  std::vector<Answer> answers_;
  News news_;
  std::atomic<bool> have_news_{false};
  std::mutex wake_mutex_;
  std::function<void()> wake_;
};

class PeerServing : public ::testing::Test {
 protected:
  static constexpr std::size_t kFloats = 1500;

  // Creates the store, and its nodes in a first round. `spare` RAM on top of the least.
  void create(NodeId nodes, NodeId guests, std::size_t reads, std::uint64_t spare) {
    describe(nodes, guests, reads);
    options_.ram_bytes = MemoryPlan::minimum(options_) + spare;
    create();
  }

  // As much RAM as the store says that it takes for rounds like `plan`.
  void create_resident(NodeId nodes, NodeId guests, std::size_t reads, const std::shared_ptr<const AccessPlan>& plan) {
    describe(nodes, guests, reads);
    options_.old_versions = UseIndex(plan, nodes, guests).extra_versions();
    options_.ram_bytes = MemoryPlan::resident_ram(options_);
    create();
  }

  void describe(NodeId nodes, NodeId guests, std::size_t reads) {
    options_.directory = directory_.path() / "store";
    options_.layout = layout_of(kFloats * 4, 4);
    options_.nodes = nodes;
    options_.guests = guests;
    options_.max_reads_per_step = reads;
    options_.max_reads_per_round = 200;
    options_.serving_frames = 1;
    options_.io = IoEngine::kPosix;
    options_.peers = &peers_;
    options_.device_hook = [this](std::unique_ptr<IoDevice>) {
      return make_faulty_device(make_memory_device(std::make_shared<MemoryFiles>(), {}), script_);
    };
  }

  void create() {
    const std::uint64_t bytes = MemoryPlan::for_options(options_).arena;
    arena_.resize(bytes + kBlockBytes);
    auto* const start =
        reinterpret_cast<std::byte*>(round_up(reinterpret_cast<std::uintptr_t>(arena_.data()), kBlockBytes));
    options_.region = {start, bytes};
    directory_entries_ = std::vector<DirectoryEntry>(options_.nodes);
    options_.listing = directory_entries_;
    store_ = StateStore::create(options_);
    store_->plan(creation_plan(options_.nodes));
    begin();
    store_->end_round();
  }

  static std::uint32_t word(NodeId node, Version version) { return static_cast<std::uint32_t>(node * 1000 + version); }

  // Steps are committed as they come, but for those of `kept`, which stays with the test.
  void begin(std::optional<NodeId> kept = std::nullopt) {
    store_->begin_round([this, kept](NodeLease lease) {
      if (writes(lease.kind())) {
        const std::vector<std::uint32_t> words(kFloats, word(lease.node(), lease.version() + 1));
        std::memcpy(lease.next(), words.data(), kFloats * 4);
      }
      if (kept == lease.node()) {
        kept_.push(std::move(lease));
      } else {
        lease.commit();
      }
    });
  }

  // The engine has gone round once since this was called.
  void let_the_engine_look() {
    store_->version(0);
    store_->version(0);
  }

  void wait_for_failure() {
    EXPECT_THROW(
        {
          for (;;) store_->version(0);
        },
        Error);
  }

  void expect_served(const ScriptedPeers::Answer& answer, NodeId node, Version version) {
    EXPECT_EQ(answer.request.node, node);
    EXPECT_EQ(answer.version, version);
    const std::byte* const record = payload(options_.region.data() + answer.offset);
    for (const std::size_t at : {std::size_t{0}, kFloats - 1}) {
      std::uint32_t got = 0;
      std::memcpy(&got, record + at * 4, 4);
      EXPECT_EQ(got, word(node, version));
    }
  }

  const Watchdog watchdog_{::testing::UnitTest::GetInstance()->current_test_info()->name(), 400};
  const TemporaryDirectory directory_{fast_directory()};
  std::shared_ptr<FaultScript> script_ = std::make_shared<FaultScript>();
  std::vector<std::byte> arena_;
  std::vector<DirectoryEntry> directory_entries_;
  ScriptedPeers peers_;
  StoreOptions options_;
  std::unique_ptr<StateStore> store_;
  ReadyQueue kept_;
};

std::vector<NodeId> nodes(std::initializer_list<NodeId> list) { return list; }

// With four frames: three for the step that waits for a guest, one for serving.
TEST_F(PeerServing, KeepsAFrameForOthersWhenTheyAreDoneWithOneThatAStepUses) {
  create(4, 2, 1, 0);
  auto plan = std::make_shared<AccessPlan>();
  plan->add(StepKind::kUpdate, 0, nodes({4}));
  plan->add(StepKind::kUpdate, 1, nodes({5}));
  for (NodeId node = 0; node < 4; ++node) plan->hold(node);
  store_->plan(plan);
  begin();
  const auto guest = peers_.fetched(0);
  EXPECT_EQ(guest.guest, 0u);
  peers_.ask(0);  // whose record the step has pinned
  expect_served(peers_.answer(0), 0, 1);
  let_the_engine_look();
  peers_.release(peers_.answer(0));
  peers_.ask(2);
  expect_served(peers_.answer(1), 2, 1);
  peers_.release(peers_.answer(1));
  peers_.arrive(guest);
  peers_.arrive(peers_.fetched(1));
  const RoundReport report = store_->end_round();
  EXPECT_EQ(report.guest_fetches, 2u);
}

TEST_F(PeerServing, KeepsAFrameForOthersWhenAStepWantsTheOneThatTheyRead) {
  create(4, 2, 1, 0);
  auto plan = std::make_shared<AccessPlan>();
  plan->add(StepKind::kUpdate, 0, nodes({4}));
  plan->add(StepKind::kUpdate, 1, nodes({5}));
  for (NodeId node = 0; node < 4; ++node) plan->hold(node);
  store_->plan(plan);
  begin();
  const auto guest = peers_.fetched(0);
  peers_.ask(1);  // whose step has no frame yet
  expect_served(peers_.answer(0), 1, 1);
  let_the_engine_look();
  peers_.release(peers_.answer(0));
  peers_.ask(2);
  expect_served(peers_.answer(1), 2, 1);
  peers_.release(peers_.answer(1));
  peers_.arrive(guest);
  peers_.arrive(peers_.fetched(1));
  store_->end_round();
}

TEST_F(PeerServing, LetsTheFirstWorkerLookAtWhatHasArrived) {
  create(2, 1, 1, 0);
  auto plan = std::make_shared<AccessPlan>();
  plan->add(StepKind::kUpdate, 0, nodes({2}));
  store_->plan(plan);
  begin(0);
  peers_.arrive(peers_.fetched(0), ScriptedPeers::kDamaged);
  {
    const auto lease = kept_.pop();
    EXPECT_THAT([&] { lease->read(0); }, ThrowsMessage<Error>(HasSubstr("guest 0 came damaged")));
  }
  EXPECT_THAT([&] { store_->end_round(); }, ThrowsMessage<Error>(HasSubstr("guest 0 came damaged")));
}

TEST_F(PeerServing, BringsRecordsForOthersThoughItsOwnStepsReadNothing) {
  create(6, 0, 0, 0);
  for (NodeId node = 0; node < 6; ++node) {
    peers_.ask(node);
    expect_served(peers_.answer(node), node, 1);
    peers_.release(peers_.answer(node));
  }
}

TEST_F(PeerServing, KeepsWhatIsHeldUntilTheRoundEndsAndTheNewVersionFromThoseWhoAreAhead) {
  create(3, 0, 0, 0);
  auto plan = std::make_shared<AccessPlan>();
  for (NodeId node = 0; node < 3; ++node) plan->add(StepKind::kUpdate, node);
  for (NodeId node = 0; node < 3; ++node) plan->hold(node);
  store_->plan(plan);
  begin();
  peers_.ask(0, 2);
  for (NodeId node = 0; node < 3; ++node) {
    peers_.ask(node, 1);
    expect_served(peers_.answer(node), node, 1);
    peers_.release(peers_.answer(node));
  }
  let_the_engine_look();
  EXPECT_EQ(peers_.answers(), 3u);
  store_->end_round();
  expect_served(peers_.answer(3), 0, 2);
  peers_.release(peers_.answer(3));
}

// A round's end waits for readers.
TEST_F(PeerServing, DoesNotReplaceARecordThatOthersAreReading) {
  create(2, 0, 0, 0);
  auto plan = std::make_shared<AccessPlan>();
  plan->add(StepKind::kUpdate, 0);
  plan->hold(0);
  store_->plan(plan);
  begin();
  peers_.ask(0);
  const auto answer = peers_.answer(0);
  std::thread ending([&] { store_->end_round(); });
  expect_served(answer, 0, 1);
  peers_.release(answer);
  ending.join();
  peers_.ask(0);
  expect_served(peers_.answer(1), 0, 2);
}

// Without rounds in step nothing is held; the version before is gone when the node's own readers are done.
TEST_F(PeerServing, ServesTheNewVersionOfANodeThatIsNotHeld) {
  create(6, 0, 0, 0);
  auto plan = std::make_shared<AccessPlan>();
  for (NodeId node = 0; node < 6; ++node) plan->add(StepKind::kUpdate, node);
  store_->plan(plan);
  begin(5);
  // The last step stays open: all others act, and most of what they make leaves RAM.
  std::size_t nth = 0;
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (NodeId node = 0; node < 5; ++node) {
      for (Version version = 0; version != 2;) {
        peers_.ask(node);
        const auto answer = peers_.answer(nth++);
        version = answer.version;
        expect_served(answer, node, version);
        peers_.release(answer);
      }
    }
  }
  kept_.pop()->commit();
  store_->end_round();
  for (NodeId node = 0; node < 6; ++node) EXPECT_EQ(store_->version(node), 2u);
  EXPECT_THAT(store_->verify().problems, ::testing::IsEmpty());
}

TEST_F(PeerServing, FailsWhenAVersionIsAskedForThatThePlanDoesNotHold) {
  create(2, 0, 0, 0);
  auto plan = std::make_shared<AccessPlan>();
  plan->add(StepKind::kUpdate, 0);
  plan->add(StepKind::kUpdate, 1);
  store_->plan(plan);
  begin(1);
  std::size_t nth = 0;
  for (peers_.ask(0); peers_.answer(nth).version == 1; ++nth) {  // until it has acted
    peers_.release(peers_.answer(nth));
    peers_.ask(0);
  }
  auto lease = kept_.pop();
  peers_.ask(0, 1);
  peers_.release(peers_.answer(nth));
  wait_for_failure();
  lease.reset();
  EXPECT_THAT([&] { store_->end_round(); }, ThrowsMessage<Error>(HasSubstr("version 1 of node 0")));
}

TEST_F(PeerServing, FetchesAGuestOnceForAllItsReadersAndForgetsItWithTheRound) {
  create(3, 2, 2, 1 << 20);
  auto plan = std::make_shared<AccessPlan>();
  plan->add(StepKind::kUpdate, 0, nodes({3}));
  plan->add(StepKind::kUpdate, 1, nodes({3, 4}));
  plan->add(StepKind::kUpdate, 2, nodes({4, 0}));
  for (std::size_t round = 0; round < 2; ++round) {
    store_->plan(plan);
    begin();
    peers_.arrive(peers_.fetched(2 * round));
    peers_.arrive(peers_.fetched(2 * round + 1));
    const RoundReport report = store_->end_round();
    EXPECT_EQ(report.guest_fetches, 2u);
    EXPECT_EQ(report.guests, 2u);
    EXPECT_EQ(report.hits[index(Part::kPublic)], 4u) << "three of their own and one read";
    EXPECT_EQ(report.misses[index(Part::kPublic)], 0u);
  }
}

TEST_F(PeerServing, FetchesAGuestAgainWhenThereWasNoRoomToKeepIt) {
  create(1, 5, 1, 0);
  peers_.have_all_at_once();
  auto plan = std::make_shared<AccessPlan>();
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (NodeId guest = 1; guest < 6; ++guest) plan->add(StepKind::kRead, kNoNode, nodes({guest}));
  }
  store_->plan(plan);
  begin();
  const RoundReport report = store_->end_round();
  EXPECT_EQ(report.guests, 5u);
  // With three frames Belady's rule keeps two of them from one time round to the next.
  EXPECT_GE(report.guest_fetches, 5u + 2 * 3u);
  EXPECT_LE(report.guest_fetches, 3 * 5u);
}

// All that it asks for is late, and each step asks for others: with steps as far ahead as they may be there would be
// many more guests than a step at a time has.
TEST_F(PeerServing, WithRamForEverythingWaitsForGuestsRatherThanWriteItsOwnRecordsOut) {
  constexpr NodeId kNodes = 20;
  constexpr std::size_t kReads = 8;
  auto plan = std::make_shared<AccessPlan>();
  for (NodeId node = 0, guest = kNodes; node < kNodes; ++node) {
    std::vector<NodeId> reads;
    while (reads.size() < kReads) reads.push_back(guest++);
    plan->add(StepKind::kUpdate, node, reads);
  }
  create_resident(kNodes, kNodes * kReads, kReads, plan);
  for (std::size_t round = 0; round < 2; ++round) {
    store_->plan(plan);
    begin();
    for (std::size_t guest = 0; guest < kNodes * kReads; ++guest) {
      peers_.arrive(peers_.fetched(round * kNodes * kReads + guest));
    }
    const RoundReport report = store_->end_round();
    EXPECT_EQ(report.guest_fetches, kNodes * kReads);
    EXPECT_EQ(report.slab_bytes_written, 0u);
    EXPECT_EQ(report.slab_bytes_read, 0u);
  }
}

TEST_F(PeerServing, EndsAFailedRoundWhenTheLeasesAreBack) {
  create(6, 2, 1, 0);
  auto plan = std::make_shared<AccessPlan>();
  plan->add(StepKind::kRead, 99, nodes({0}));
  plan->add(StepKind::kRead, kNoNode, nodes({6}));
  plan->add(StepKind::kRead, kNoNode, nodes({7}));
  for (NodeId node = 0; node < 6; ++node) plan->add(StepKind::kRead, kNoNode, nodes({node}));
  store_->plan(plan);
  begin(99);
  auto lease = kept_.pop();
  const auto first = peers_.fetched(0);
  const auto second = peers_.fetched(1);  // now there is no frame for the rest
  script_->fail(script_->operations(DeviceOperation::kRead) + 1, Fault::kIoError, DeviceOperation::kRead);
  peers_.arrive(first);
  wait_for_failure();
  peers_.arrive(second);  // too late for anyone
  peers_.ask(0);
  std::atomic<bool> back{false};
  std::thread ending([&] {
    EXPECT_THAT([&] { store_->end_round(); }, ThrowsMessage<Error>(HasSubstr("reading the public record")));
    EXPECT_TRUE(back) << "a lease was still out";
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // enough to be wrong in
  back = true;
  lease->commit();
  ending.join();
  EXPECT_EQ(peers_.answers(), 0u);
}

}  // namespace
}  // namespace shoal::testing
