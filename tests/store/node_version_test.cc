// NodeLease::set_version: a copied node keeps its version, in the table, in the records and after reopening.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "store/error.h"
#include "tests/store/store_harness.h"

namespace shoal::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

constexpr NodeId kNodes = 10;

// What each warm capacity leaves in the slabs: everything, some, nothing.
class NodeVersion : public ::testing::TestWithParam<unsigned> {
 protected:
  NodeVersion() {
    options_.directory = directory_.path() / "store";
    options_.layout = layout_of(5000, 3000);
    options_.nodes = kNodes;
    options_.max_reads_per_step = 2;
    options_.ram_bytes = StateStore::minimum_ram(options_);
    options_.warm_bytes = GetParam() * options_.layout.state_bytes();
    store_ = StateStore::create(options_);
  }

  // A round that creates all nodes anew, node n with the byte `fill + n` and the version given, while each of them
  // reads the next one's state as it was before, of byte `before + n`.
  void create(unsigned fill, const std::map<NodeId, Version>& versions, std::optional<unsigned> before) {
    auto plan = std::make_shared<AccessPlan>();
    for (NodeId node = 0; node < kNodes; ++node) {
      const NodeId read = (node + 1) % kNodes;
      plan->add(StepKind::kCreate, node, before ? std::vector<NodeId>{read} : std::vector<NodeId>{});
    }
    store_->plan(plan);
    bool same = true;
    store_->begin_round([&](NodeLease lease) {
      if (before) same &= lease.read(0)[77] == static_cast<std::byte>(*before + (lease.node() + 1) % kNodes);
      std::memset(lease.next(), static_cast<int>(fill + lease.node()), options_.layout.payload_bytes(Part::kPublic));
      std::memset(lease.private_state(), static_cast<int>(fill + lease.node()),
                  options_.layout.payload_bytes(Part::kPrivate));
      if (versions.contains(lease.node())) lease.set_version(versions.at(lease.node()));
      lease.commit();
    });
    store_->end_round();
    EXPECT_TRUE(same) << "a new version was seen, or an old one lost, in the round that made it";
  }

  void expect(unsigned fill, const std::map<NodeId, Version>& versions) {
    auto plan = std::make_shared<AccessPlan>();
    for (NodeId node = 0; node < kNodes; ++node) plan->add(StepKind::kInspect, node);
    store_->plan(plan);
    store_->begin_round([&](NodeLease lease) {
      EXPECT_EQ(lease.version(), versions.at(lease.node())) << "node " << lease.node();
      EXPECT_EQ(lease.current()[77], static_cast<std::byte>(fill + lease.node()));
      EXPECT_EQ(lease.private_state()[77], static_cast<std::byte>(fill + lease.node()));
    });
    store_->end_round();
    for (NodeId node = 0; node < kNodes; ++node) EXPECT_EQ(store_->version(node), versions.at(node));
    EXPECT_THAT(store_->verify().problems, IsEmpty());
  }

  TemporaryDirectory directory_{fast_directory()};
  StoreOptions options_;
  std::unique_ptr<StateStore> store_;
};

TEST_P(NodeVersion, GivenToANewNodeIsThereAfterTheRoundAndAfterReopening) {
  std::map<NodeId, Version> versions;
  for (NodeId node = 0; node < kNodes; ++node) versions[node] = node % 3 == 0 ? 1000 + node : 1;
  std::map<NodeId, Version> given;
  for (NodeId node = 0; node < kNodes; node += 3) given[node] = 1000 + node;
  create(1, given, std::nullopt);
  expect(1, versions);
  store_->checkpoint("");
  store_.reset();
  store_ = StateStore::open(options_);
  expect(1, versions);
}

TEST_P(NodeVersion, GivenToANodeThatIsThereMayBeAnyAndHidesTheOldStateFromNobody) {
  create(1, {}, std::nullopt);
  std::map<NodeId, Version> versions;
  Version next = 0;
  unsigned fill = 1;
  // Up, down, the same one again, and of either parity.
  for (const Version version : {7u, 9u, 9u, 2u, 3u, 1u}) {
    for (NodeId node = 0; node < kNodes; ++node) versions[node] = version + node % 2;
    create(fill + 20, versions, fill);
    fill += 20;
    next = version;
  }
  expect(fill, versions);
  for (NodeId node = 0; node < kNodes; ++node) versions[node] = next + 1 + node % 2;
  create(fill + 20, {}, fill);
  expect(fill + 20, versions);
  store_->checkpoint("");
  store_.reset();
  store_ = StateStore::open(options_);
  expect(fill + 20, versions);
}

TEST_P(NodeVersion, IsNotToBeGivenToAnUpdateNorToBeZero) {
  create(1, {}, std::nullopt);
  auto plan = std::make_shared<AccessPlan>();
  plan->add(StepKind::kUpdate, 4);
  plan->add(StepKind::kCreate, 5);
  store_->plan(plan);
  std::vector<NodeLease> leases;
  store_->begin_round([&](NodeLease lease) {
    const Version wrong = lease.kind() == StepKind::kUpdate ? 7 : 0;
    EXPECT_THAT([&] { lease.set_version(wrong); }, ThrowsMessage<Error>(HasSubstr("cannot be given version")));
    std::memset(lease.next(), 1, options_.layout.payload_bytes(Part::kPublic));
    lease.commit();
  });
  store_->end_round();
  EXPECT_EQ(store_->version(4), 2u);
  EXPECT_EQ(store_->version(5), 2u);
}

INSTANTIATE_TEST_SUITE_P(WarmNodes, NodeVersion, ::testing::Values(100u, 8u, 0u));

}  // namespace
}  // namespace shoal::testing
