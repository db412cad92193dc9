// A record that was damaged on disk: whoever asks a lease for it hears so, the round fails with it, and nobody's seal
// hides it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <vector>

#include "store/error.h"
#include "store/record_check.h"
#include "store/slab.h"
#include "tests/store/store_harness.h"

namespace shoal::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

constexpr NodeId kNodes = 10;

class DamagedRecord : public ::testing::TestWithParam<Part> {
 protected:
  DamagedRecord() {
    options_.directory = directory_.path() / "store";
    options_.layout = layout_of(5000, 3000);
    options_.nodes = kNodes;
    options_.max_reads_per_step = 1;
    options_.io = IoEngine::kPosix;
    options_.ram_bytes = StateStore::minimum_ram(options_);
    auto store = StateStore::create(options_);
    store->plan(creation_plan(kNodes));
    store->begin_round([&](NodeLease lease) {
      std::memset(lease.next(), 7, options_.layout.payload_bytes(Part::kPublic));
      std::memset(lease.private_state(), 7, options_.layout.payload_bytes(Part::kPrivate));
      lease.commit();
    });
    store->end_round();
    store->checkpoint("");
    store.reset();
    // One byte in the middle of every slot: all nodes are damaged alike.
    const std::filesystem::path slab = slab_path(options_.directory, GetParam());
    const std::uint64_t slot = options_.layout.record_bytes(GetParam());
    std::fstream file(slab, std::ios::in | std::ios::out | std::ios::binary);
    for (std::uint64_t at = 2000; at < std::filesystem::file_size(slab); at += slot) {
      file.seekp(static_cast<std::streamoff>(at));
      file.put('x');
    }
    file.close();
    store_ = StateStore::open(options_);
  }

  // A round of one step; what `work` throws does not leave it.
  void run(StepKind kind, const std::function<void(NodeLease&)>& work) {
    auto plan = std::make_shared<AccessPlan>();
    plan->add(kind, 3, std::vector<NodeId>{4});
    store_->plan(plan);
    store_->begin_round([this, work](NodeLease lease) {
      try {
        work(lease);
      } catch (const Error& error) {
        heard_.emplace_back(error.what());
      }
    });
  }

  TemporaryDirectory directory_;
  StoreOptions options_;
  std::unique_ptr<StateStore> store_;
  std::vector<std::string> heard_;
};

class DamagedInput : public DamagedRecord {};         // public records only
class DamagedPrivateState : public DamagedRecord {};  // private records only

TEST_P(DamagedRecord, IsAnErrorForWhoeverAsksForItAndForTheRound) {
  run(StepKind::kInspect, [&](NodeLease& lease) {
    const auto* const record = GetParam() == Part::kPublic ? lease.read(0) : lease.private_state();
    ADD_FAILURE() << "got " << static_cast<int>(record[1000]);
  });
  const std::string name = GetParam() == Part::kPublic ? "public record of node 4" : "private record of node 3";
  EXPECT_THAT([&] { store_->end_round(); },
              ThrowsMessage<Error>(AllOf(HasSubstr(name + " is damaged"), HasSubstr("checksum"),
                                         HasSubstr(slab_path(options_.directory, GetParam()).string()))));
  EXPECT_THAT(heard_, SizeIs(1));
}

TEST_P(DamagedInput, IsAnErrorForWhoeverGoesThroughItAndChecksItOnTheWay) {
  run(StepKind::kUpdate, [&](NodeLease& lease) {
    RecordCheck check;
    const std::byte* const record = lease.input(1, check);
    check.advance(record + 1000);
    lease.finish_input(1, check);
    ADD_FAILURE() << "got " << static_cast<int>(record[1000]);
  });
  EXPECT_THAT([&] { store_->end_round(); }, ThrowsMessage<Error>(HasSubstr("public record of node 4 is damaged")));
  EXPECT_THAT(heard_, SizeIs(1));
}

TEST_P(DamagedInput, FailsTheCommitOfWhoeverWentThroughItWithoutFinishingTheCheck) {
  run(StepKind::kUpdate, [&](NodeLease& lease) {
    RecordCheck check;
    lease.input(1, check);
    lease.commit();
    ADD_FAILURE() << "committed";
  });
  EXPECT_THAT([&] { store_->end_round(); }, ThrowsMessage<Error>(HasSubstr("is damaged")));
  EXPECT_THAT(heard_, SizeIs(1));
}

TEST_P(DamagedPrivateState, IsFoundByWhoeverLooksAtAllOfItAndThenChangesIt) {
  run(StepKind::kUpdate, [&](NodeLease& lease) {
    RecordCheck check;
    std::byte* const record = lease.private_state(check);
    check.advance_to_end();
    std::memset(record, 9, options_.layout.payload_bytes(Part::kPrivate));
    lease.finish_writing(check);
    ADD_FAILURE() << "accepted";
  });
  EXPECT_THAT([&] { store_->end_round(); }, ThrowsMessage<Error>(HasSubstr("private record of node 3 is damaged")));
  EXPECT_THAT(heard_, SizeIs(1));
}

TEST_P(DamagedPrivateState, IsNotSealedWhenWritingEndsUnseen) {
  run(StepKind::kUpdate, [&](NodeLease& lease) {
    RecordCheck never_begun;
    lease.finish_writing(never_begun);
    ADD_FAILURE() << "sealed";
  });
  EXPECT_THAT([&] { store_->end_round(); }, ThrowsMessage<Error>(HasSubstr("private record of node 3 is damaged")));
  EXPECT_THAT(heard_, SizeIs(1));
}

TEST_P(DamagedRecord, IsNotSealedAgainByAWorkerWhoNeverLookedAtIt) {
  run(StepKind::kUpdate, [&](NodeLease& lease) {
    std::memset(lease.next(), 8, options_.layout.payload_bytes(Part::kPublic));
    lease.commit();
  });
  if (GetParam() == Part::kPublic) {
    EXPECT_NO_THROW(store_->end_round()) << "nobody has asked for it";
  } else {
    EXPECT_THAT([&] { store_->end_round(); }, ThrowsMessage<Error>(HasSubstr("private record of node 3 is damaged")));
  }
}

TEST_P(DamagedRecord, IsNoMatterWhenTheNodeIsCreatedAnew) {
  run(StepKind::kInspect, [](NodeLease& lease) { lease.commit(); });  // brings it to RAM, where nobody looks at it
  ASSERT_NO_THROW(store_->end_round());
  run(StepKind::kCreate, [&](NodeLease& lease) {
    std::memset(lease.next(), 8, options_.layout.payload_bytes(Part::kPublic));
    lease.commit();
  });
  EXPECT_NO_THROW(store_->end_round());
  EXPECT_THAT(heard_, IsEmpty());
}

TEST_P(DamagedRecord, DoesNotMoveToTheColdTier) {
  const std::vector<NodeId> nodes = {3};
  EXPECT_THAT([&] { store_->demote(nodes); }, ThrowsMessage<Error>(HasSubstr("of node 3 is damaged")));
}

INSTANTIATE_TEST_SUITE_P(Parts, DamagedRecord, ::testing::Values(Part::kPublic, Part::kPrivate),
                         [](const auto& part) { return part.param == Part::kPublic ? "public" : "private"; });

INSTANTIATE_TEST_SUITE_P(Parts, DamagedInput, ::testing::Values(Part::kPublic), [](const auto&) { return "public"; });

INSTANTIATE_TEST_SUITE_P(Parts, DamagedPrivateState, ::testing::Values(Part::kPrivate),
                         [](const auto&) { return "private"; });

TEST(State, ThatWasSealedBeforeTheCommitIsTheNextOne) {
  TemporaryDirectory directory;
  StoreOptions options;
  options.directory = directory.path() / "store";
  options.layout = layout_of(5000, 3000);
  options.nodes = kNodes;
  options.io = IoEngine::kPosix;
  options.ram_bytes = StateStore::minimum_ram(options);  // so that records leave RAM, sealed
  auto store = StateStore::create(options);
  store->plan(creation_plan(kNodes));
  for (int round = 1; round <= 3; ++round) {
    auto plan = std::make_shared<AccessPlan>();
    for (NodeId node = 0; node < kNodes; ++node) plan->add(StepKind::kUpdate, node);
    store->plan(plan);
  }
  for (int round = 0; round <= 3; ++round) {
    store->begin_round([&](NodeLease lease) {
      std::memset(lease.next(), round, options.layout.payload_bytes(Part::kPublic));
      RecordCheck check;
      std::byte* const own = lease.private_state(check);
      EXPECT_EQ(own[2999], static_cast<std::byte>(round == 0 ? 0 : round - 1)) << "of node " << lease.node();
      check.advance_to_end();
      std::memset(own, round, options.layout.payload_bytes(Part::kPrivate));
      lease.finish_writing(check);
      lease.commit();
    });
    store->end_round();
  }
  EXPECT_THAT(store->verify().problems, IsEmpty());
}

// A bit anywhere in what the last checkpoint refers to.
class FlippedBit : public ::testing::TestWithParam<const char*> {};

TEST_P(FlippedBit, IsFoundByReadingAndByVerify) {
  TemporaryDirectory directory;
  StoreOptions options;
  options.directory = directory.path() / "store";
  options.layout = layout_of(5000, 5000);
  options.nodes = 12;
  options.io = IoEngine::kPosix;
  options.ram_bytes = StateStore::minimum_ram(options) + 20 * options.layout.state_bytes();
  Model model(12, options.layout);
  {
    auto store = StateStore::create(options);
    run_both(*store, model, creation_plan(12), 1, 1);
    store->checkpoint("x");
  }
  const std::filesystem::path path = options.directory / GetParam();
  const bool is_public = path.filename() == "public.slab";
  const Part part = is_public ? Part::kPublic : Part::kPrivate;
  // A third of the private records are all zeros and in no slot.
  const std::uint64_t used = (is_public ? 12 : 8) * options.layout.record_bytes(part);
  std::mt19937_64 random(9);
  for (int attempt = 0; attempt < 25; ++attempt) {
    const std::uint64_t bit = random() % (used * 8);
    const auto flip = [&] {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(bit / 8));
      const auto byte = static_cast<char>(file.get() ^ (1 << (bit % 8)));
      file.seekp(static_cast<std::streamoff>(bit / 8));
      file.put(byte);
    };
    flip();
    const std::uint64_t slot = bit / 8 / options.layout.record_bytes(part);
    const auto names_it = AllOf(HasSubstr(path.string()), HasSubstr(fmt::format("slot {} ", slot)), HasSubstr("node "));
    SCOPED_TRACE(fmt::format("bit {}", bit));
    {
      auto store = StateStore::open(options);
      EXPECT_THAT(store->verify().problems, ::testing::ElementsAre(names_it));
    }
    {
      auto store = StateStore::open(options);
      EXPECT_THAT([&] { expect_equal(*store, model); }, ThrowsMessage<Error>(names_it));
    }
    flip();
  }
  auto store = StateStore::open(options);
  expect_equal(*store, model);
}

INSTANTIATE_TEST_SUITE_P(Slabs, FlippedBit, ::testing::Values("public.slab", "private.slab"),
                         [](const auto& file) { return std::string(file.param).substr(0, 6); });

}  // namespace
}  // namespace shoal::testing
