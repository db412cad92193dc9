// Checkpoints in two steps: what is there between and after them, what is refused, what becomes free.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/error.h"
#include "store/location.h"
#include "store/ready_queue.h"
#include "tests/store/store_harness.h"

namespace shoal::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

constexpr NodeId kNodes = 12;

class CheckpointSteps : public ::testing::TestWithParam<IoEngine> {
 protected:
  CheckpointSteps() {
    options_.directory = directory_.path() / "store";
    options_.layout = layout_of(5000, 3000);
    options_.nodes = kNodes;
    options_.max_reads_per_step = 2;
    options_.io = GetParam();
    options_.ram_bytes = StateStore::minimum_ram(options_) + 4 * options_.layout.state_bytes();
    store_ = StateStore::create(options_);
    round(creation_plan(kNodes));
    store_->checkpoint("one");
    first_ = model_;
  }

  void round(std::shared_ptr<const AccessPlan> plan) { run_both(*store_, model_, std::move(plan), ++seed_, 2); }
  void gossip() { round(gossip_plan(kNodes, 2, random_)); }
  std::vector<NodeId> all() const {
    std::vector<NodeId> nodes(kNodes);
    for (NodeId node = 0; node < kNodes; ++node) nodes[node] = node;
    return nodes;
  }
  void reopen(std::optional<std::uint64_t> epoch) {
    store_.reset();
    options_.open_epoch = epoch;
    store_ = StateStore::open(options_);
  }
  std::vector<std::uint64_t> epochs() {
    std::vector<std::uint64_t> epochs;
    for (const CheckpointInfo& info : StateStore::checkpoints(options_)) epochs.push_back(info.epoch);
    return epochs;
  }
  std::uint64_t slab_bytes() { return store_->report().slab_bytes; }

  TemporaryDirectory directory_{fast_directory()};
  StoreOptions options_;
  std::unique_ptr<StateStore> store_;
  Model model_{kNodes, layout_of(5000, 3000)};
  Model first_ = model_;
  std::mt19937_64 random_{5};
  std::uint64_t seed_ = 0;
};

TEST_P(CheckpointSteps, ThatWereBothTakenLeaveTheNewCheckpointAlone) {
  gossip();
  store_->prepare_checkpoint("two");
  EXPECT_EQ(store_->checkpoint_count(), 1u);
  EXPECT_EQ(store_->checkpoint_note(), "one");
  store_->commit_checkpoint();
  EXPECT_EQ(store_->checkpoint_count(), 2u);
  EXPECT_EQ(store_->checkpoint_note(), "two");
  store_.reset();
  EXPECT_EQ(epochs(), std::vector<std::uint64_t>{2});
  reopen(std::nullopt);
  expect_equal(*store_, model_);
}

TEST_P(CheckpointSteps, ThatWereInterruptedLeaveBothAndEitherOpens) {
  for (const std::uint64_t epoch : {1u, 2u}) {
    SCOPED_TRACE(epoch);
    reopen(std::nullopt);
    ASSERT_EQ(store_->checkpoint_count(), 1u);
    gossip();
    store_->prepare_checkpoint("two");
    store_.reset();
    const auto there = StateStore::checkpoints(options_);
    ASSERT_EQ(there.size(), 2u);
    EXPECT_EQ(there[0].epoch, 1u);
    EXPECT_EQ(there[0].note, "one");
    EXPECT_EQ(there[1].epoch, 2u);
    EXPECT_EQ(there[1].note, "two");
    reopen(epoch);
    EXPECT_EQ(store_->checkpoint_count(), epoch);
    EXPECT_EQ(store_->checkpoint_note(), there[epoch - 1].note);
    if (epoch == 1) model_ = first_;
    EXPECT_NO_THROW(expect_equal(*store_, model_));
    EXPECT_THAT(store_->verify().problems, IsEmpty());
    store_.reset();
    EXPECT_EQ(epochs(), std::vector<std::uint64_t>{epoch});
  }
}

TEST_P(CheckpointSteps, WithoutAnEpochTheNewestOpensThoughItIsOnlyPrepared) {
  gossip();
  store_->prepare_checkpoint("two");
  reopen(std::nullopt);
  EXPECT_EQ(store_->checkpoint_note(), "two");
  EXPECT_NO_THROW(expect_equal(*store_, model_));
}

TEST_P(CheckpointSteps, AnEpochThatIsNotThereIsRefusedAndNothingChanges) {
  gossip();
  store_->prepare_checkpoint("two");
  for (const std::uint64_t absent : {0u, 3u}) {
    EXPECT_THAT([&] { reopen(absent); },
                ThrowsMessage<Error>(AllOf(HasSubstr("no checkpoint " + std::to_string(absent)), HasSubstr("1 and 2"),
                                           HasSubstr(options_.directory.string()))));
  }
  EXPECT_EQ(epochs(), (std::vector<std::uint64_t>{1, 2}));
}

TEST_P(CheckpointSteps, TheEmptyCheckpointOfANewStoreIsThereAsEpochZero) {
  options_.overwrite = true;
  store_.reset();
  store_ = StateStore::create(options_);
  store_->prepare_checkpoint("nothing yet");
  store_.reset();
  EXPECT_EQ(epochs(), (std::vector<std::uint64_t>{0, 1}));
  reopen(0);
  EXPECT_EQ(store_->checkpoint_note(), "");
}

TEST_P(CheckpointSteps, BetweenThemNothingRunsAndNothingMoves) {
  store_->plan(gossip_plan(kNodes, 2, random_));
  store_->prepare_checkpoint("two");
  const auto refused = ThrowsMessage<Error>(HasSubstr("commit it first"));
  EXPECT_THAT([&] { store_->begin_round([](NodeLease) {}); }, refused);
  EXPECT_THAT([&] { store_->demote(all()); }, refused);
  EXPECT_THAT([&] { store_->promote(all()); }, refused);
  EXPECT_THAT([&] { store_->prepare_checkpoint("three"); }, refused);
  EXPECT_THAT([&] { store_->checkpoint("three"); }, refused);
  EXPECT_THAT(store_->verify().problems, IsEmpty());
  store_->commit_checkpoint();
  EXPECT_THAT([&] { store_->commit_checkpoint(); }, ThrowsMessage<Error>(HasSubstr("prepare_checkpoint() first")));
  EXPECT_NO_THROW(store_->checkpoint("three"));
}

TEST_P(CheckpointSteps, AreRefusedWhileARoundRuns) {
  store_->plan(creation_plan(kNodes));
  ReadyQueue queue;
  store_->begin_round([&](NodeLease lease) { queue.push(std::move(lease)); }, [&] { queue.close(); });
  EXPECT_THAT([&] { store_->prepare_checkpoint("two"); }, ThrowsMessage<Error>(HasSubstr("end it first")));
  while (auto lease = queue.pop()) lease->commit();
  store_->end_round();
}

TEST_P(CheckpointSteps, HoldTwoOfEveryRecordUntilTheCommitAndOneAfterIt) {
  // Node 0, 3, ... have private states of zeros at first, which take no slot.
  const std::uint64_t one = slab_bytes();
  gossip();
  store_->prepare_checkpoint("two");
  const std::uint64_t both = slab_bytes();
  store_->commit_checkpoint();
  const std::uint64_t state = kNodes * options_.layout.state_bytes();
  EXPECT_EQ(both, one + state);
  EXPECT_EQ(slab_bytes(), state);
}

TEST_P(CheckpointSteps, ADiscardedOneGivesItsSlotsAndColdRecordsBack) {
  const std::uint64_t one = slab_bytes();
  gossip();
  store_->demote(all());
  store_->prepare_checkpoint("two");
  const std::uint64_t with_records = store_->report().cold_bytes;
  reopen(1);
  EXPECT_EQ(slab_bytes(), one);
  EXPECT_LT(store_->report().cold_bytes + kNodes * 5000, with_records)
      << "the files of its cold records are still there";
  EXPECT_NO_THROW(expect_equal(*store_, first_));
}

TEST_P(CheckpointSteps, ADroppedOneTakesItsColdRecordsWithIt) {
  store_->demote(all());
  store_->checkpoint("cold");  // epoch 2
  gossip();
  store_->prepare_checkpoint("warm");
  const auto cold_record_is_there = [this] {
    MemoryBudget budget(kColdMinimumBytes);
    const ColdTier cold({options_.directory / "cold", kColdMinimumBytes, ColdAccess::kRead}, budget);
    std::vector<std::byte> record(options_.layout.record_bytes(Part::kPublic));
    unsigned found = 0;
    for (const unsigned side : {0u, 1u}) {
      try {
        cold.get(cold_stamp(2, side), Part::kPublic, 5, record);
        ++found;
      } catch (const Error&) {
      }
    }
    return found > 0;
  };
  store_.reset();
  EXPECT_TRUE(cold_record_is_there()) << "the committed one refers to it";
  reopen(3);
  store_->checkpoint("makes the erasure durable");
  EXPECT_THAT(store_->verify().problems, IsEmpty());
  store_.reset();
  EXPECT_FALSE(cold_record_is_there());
}

TEST_P(CheckpointSteps, AreListedOnlyForAStoreThatIsThereAndClosed) {
  EXPECT_THAT([&] { epochs(); }, ThrowsMessage<Error>(HasSubstr("in use by process")));
  store_.reset();
  EXPECT_EQ(epochs(), std::vector<std::uint64_t>{1});
  options_.directory = directory_.path() / "nothing";
  EXPECT_THAT([&] { epochs(); }, ThrowsMessage<Error>(HasSubstr("there is no store in")));
  EXPECT_FALSE(std::filesystem::exists(options_.directory));
}

INSTANTIATE_TEST_SUITE_P(Engines, CheckpointSteps, ::testing::Values(IoEngine::kPosix, IoEngine::kMapped),
                         [](const auto& engine) {
                           return engine.param == IoEngine::kMapped ? std::string("mapped") : std::string("posix");
                         });

}  // namespace
}  // namespace shoal::testing
