#include "trainer/state_hash.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>
#include <vector>

namespace shoal {
namespace {

// Odd sizes, so that there are gaps between the tensors and at the end.
StateLayout layout() {
  return StateLayout({{"weight", DType::kFloat32, {3, 3}, Part::kPublic},
                      {"bias", DType::kFloat32, {3}, Part::kPublic},
                      {"momentum", DType::kFloat32, {5}, Part::kPrivate},
                      {"flag", DType::kUInt8, {}, Part::kPrivate}});
}

struct Node {
  explicit Node(unsigned seed)
      : shared(layout().payload_bytes(Part::kPublic)), own(layout().payload_bytes(Part::kPrivate)) {
    std::mt19937 random(seed);
    for (auto* part : {&shared, &own}) {
      for (std::byte& byte : *part) byte = static_cast<std::byte>(random());
    }
  }
  std::vector<std::byte> shared;
  std::vector<std::byte> own;
};

std::string hash_of(const std::vector<Node>& nodes, const std::vector<NodeId>& order) {
  StateHash hash;
  for (const NodeId node : order) hash.add(node, layout(), nodes[node].shared.data(), nodes[node].own.data());
  return hash.text();
}

TEST(StateHash, DoesNotDependOnTheOrderOrTheGrouping) {
  const std::vector<Node> nodes = {Node(1), Node(2), Node(3), Node(4)};
  const std::string hash = hash_of(nodes, {0, 1, 2, 3});
  EXPECT_EQ(hash.size(), 32U);
  EXPECT_EQ(hash.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(hash_of(nodes, {3, 1, 0, 2}), hash);
  StateHash first;
  StateHash second;
  for (const NodeId node : {2, 0}) first.add(node, layout(), nodes[node].shared.data(), nodes[node].own.data());
  for (const NodeId node : {3, 1}) second.add(node, layout(), nodes[node].shared.data(), nodes[node].own.data());
  second.add(first);
  EXPECT_EQ(second.text(), hash);
}

TEST(StateHash, IsTheSameWhenItsNumbersAreAddedUpOverRanks) {
  std::vector<Node> nodes;
  for (unsigned seed = 0; seed < 40; ++seed) nodes.emplace_back(seed);
  StateHash whole;
  std::vector<StateHash> parts(3);
  for (NodeId node = 0; node < nodes.size(); ++node) {
    for (StateHash* hash : {&whole, &parts[node % 3]}) {
      hash->add(node, layout(), nodes[node].shared.data(), nodes[node].own.data());
    }
  }
  std::array<std::int64_t, 2> sums{};
  for (const StateHash& part : parts) {
    for (std::size_t k = 0; k < 2; ++k) {
      // As MPI adds MPI_UINT64_T: around the end.
      sums[k] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sums[k]) +
                                          static_cast<std::uint64_t>(part.numbers()[k]));
    }
  }
  EXPECT_EQ(StateHash::from_numbers(sums).text(), whole.text());
  EXPECT_EQ(StateHash::from_numbers(StateHash().numbers()).text(), StateHash().text());
}

TEST(StateHash, ChangesWithEveryByteOfATensorAndWithNoByteOfAGap) {
  const std::vector<Node> nodes = {Node(1), Node(2)};
  const std::string hash = hash_of(nodes, {0, 1});
  std::set<std::string> hashes = {hash};
  std::size_t gaps = 0;
  for (const Part part : {Part::kPublic, Part::kPrivate}) {
    for (std::uint64_t at = 0; at < layout().payload_bytes(part); ++at) {
      bool in_tensor = false;
      const StateLayout all = layout();
      for (const TensorPlace& place : all.tensors()) {
        in_tensor |= place.spec.part == part && at >= place.offset && at < place.offset + place.bytes;
      }
      std::vector<Node> changed = nodes;
      (part == Part::kPublic ? changed[1].shared : changed[1].own)[at] ^= std::byte{1};
      if (in_tensor) {
        EXPECT_TRUE(hashes.insert(hash_of(changed, {0, 1})).second) << "byte " << at;
      } else {
        EXPECT_EQ(hash_of(changed, {0, 1}), hash) << "byte " << at;
        ++gaps;
      }
    }
  }
  EXPECT_GT(gaps, 0U);
}

TEST(StateHash, KnowsWhichNodeHasWhichState) {
  const std::vector<Node> nodes = {Node(1), Node(2)};
  const std::vector<Node> swapped = {Node(2), Node(1)};
  EXPECT_NE(hash_of(nodes, {0, 1}), hash_of(swapped, {0, 1}));
  EXPECT_NE(hash_of(nodes, {0}), hash_of(nodes, {0, 1}));
}

}  // namespace
}  // namespace shoal
