#include "store/checkpoint_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "store/error.h"
#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;
using testing::ThrowsMessage;

std::vector<SlotEntry> random_entries(NodeId nodes) {
  std::mt19937_64 random(nodes);
  std::vector<SlotEntry> entries(nodes);
  for (SlotEntry& entry : entries) {
    entry = {random(), {static_cast<std::uint32_t>(random()), static_cast<std::uint32_t>(random())}};
  }
  return entries;
}

class CheckpointImage : public testing::Test {
 protected:
  static constexpr const char* kDirectory = "/nvme/run/cold";

  static CheckpointHead head_of(NodeId nodes, std::vector<Checkpoint> checkpoints) {
    return {0xfedcba9876543210, nodes, std::move(checkpoints)};
  }

  void expect_head(const CheckpointHead& head) {
    const CheckpointHead read = read_checkpoint_head(cold_, kDirectory);
    EXPECT_EQ(read.store_id, head.store_id);
    EXPECT_EQ(read.nodes, head.nodes);
    ASSERT_THAT(read.checkpoints, SizeIs(head.checkpoints.size()));
    for (std::size_t c = 0; c < head.checkpoints.size(); ++c) {
      const Checkpoint& got = read.checkpoints[c];
      const Checkpoint& expected = head.checkpoints[c];
      EXPECT_EQ(got.epoch, expected.epoch);
      EXPECT_EQ(got.note, expected.note);
      ASSERT_THAT(got.garbage, SizeIs(expected.garbage.size()));
      for (std::size_t i = 0; i < expected.garbage.size(); ++i) {
        EXPECT_EQ(got.garbage[i].part, expected.garbage[i].part);
        EXPECT_EQ(got.garbage[i].node, expected.garbage[i].node);
        EXPECT_EQ(got.garbage[i].stamp, expected.garbage[i].stamp);
      }
    }
  }

  void expect_entries(Epoch epoch, const std::vector<SlotEntry>& entries) {
    const auto read = read_checkpoint_entries(cold_, static_cast<NodeId>(entries.size()), epoch, kDirectory);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      ASSERT_EQ(read[i].version, entries[i].version) << "node " << i;
      for (const Part part : kParts) {
        ASSERT_EQ(read[i].location[index(part)], entries[i].location[index(part)]) << "node " << i;
      }
    }
  }

  void expect_round_trip(const Checkpoint& checkpoint, const std::vector<SlotEntry>& entries) {
    const CheckpointHead head = head_of(static_cast<NodeId>(entries.size()), {checkpoint});
    cold_.commit(checkpoint_values(head, entries));
    expect_head(head);
    expect_entries(checkpoint.epoch, entries);
  }

  TemporaryDirectory directory_{fast_directory()};
  MemoryBudget budget_{64 << 20};
  ColdTier cold_{{directory_.path() / "cold", kColdMinimumBytes, ColdAccess::kCreate}, budget_};
};

TEST_F(CheckpointImage, ComesBackAsItWasCommitted) {
  expect_round_trip({42, "round 7", {{Part::kPublic, 3, 85}, {Part::kPrivate, 99, Location::kMaxStamp}}},
                    random_entries(100));
}

TEST_F(CheckpointImage, ComesBackWhenItsTableTakesSeveralValues) {
  for (const NodeId nodes : {1u, 65536u, 65537u, 200000u}) expect_round_trip({1, "", {}}, random_entries(nodes));
}

TEST_F(CheckpointImage, KeepsAnyBytesAsTheNote) {
  std::string note;
  for (int byte = 0; byte < 256; ++byte) note += static_cast<char>(byte);
  expect_round_trip({1, note, {}}, random_entries(1));
  expect_round_trip({2, "", {}}, random_entries(1));
}

TEST_F(CheckpointImage, StandsBesideTheOneBeforeUntilThatIsDropped) {
  const Checkpoint first{1, "first", {{Part::kPublic, 3, 1}}};
  const Checkpoint second{2, "second", {}};
  const std::vector<SlotEntry> first_entries = random_entries(10);
  const std::vector<SlotEntry> second_entries = random_entries(10 + 1);
  expect_round_trip(first, first_entries);
  const CheckpointHead both = head_of(10, {first, second});
  cold_.commit(checkpoint_values(both, std::span(second_entries).first(10)));
  expect_head(both);
  expect_entries(1, first_entries);
  expect_entries(2, {second_entries.begin(), second_entries.begin() + 10});

  cold_.commit(checkpoint_values(head_of(10, {second})));
  expect_head(head_of(10, {second}));
  expect_entries(2, {second_entries.begin(), second_entries.begin() + 10});
  expect_round_trip({3, "third", {}}, std::vector<SlotEntry>(10));
}

TEST_F(CheckpointImage, IsChosenByItsEpochOrAsTheNewest) {
  const CheckpointHead head = head_of(1, {{7, "old", {}}, {8, "new", {}}});
  EXPECT_EQ(chosen_checkpoint(head, 7, kDirectory).note, "old");
  EXPECT_EQ(chosen_checkpoint(head, 8, kDirectory).note, "new");
  EXPECT_EQ(chosen_checkpoint(head, std::nullopt, kDirectory).note, "new");
  for (const std::uint64_t absent : {std::uint64_t{6}, std::uint64_t{9}, (std::uint64_t{1} << 32) + 7}) {
    EXPECT_THAT([&] { chosen_checkpoint(head, absent, kDirectory); },
                ThrowsMessage<Error>(AllOf(HasSubstr(kDirectory), HasSubstr("checkpoint " + std::to_string(absent)),
                                           HasSubstr("7 and 8"))));
  }
}

TEST_F(CheckpointImage, IsRefusedWithAnyBitOfItsValuesFlipped) {
  const MetadataValues values =
      checkpoint_values(head_of(5, {{3, "note", {{Part::kPublic, 3, 1}}}}), random_entries(5));
  ASSERT_THAT(values, SizeIs(2));
  cold_.commit(values);
  const auto read = [this] {
    const CheckpointHead head = read_checkpoint_head(cold_, kDirectory);
    read_checkpoint_entries(cold_, head.nodes, head.checkpoints[0].epoch, kDirectory);
  };
  ASSERT_NO_THROW(read());
  for (const auto& [key, value] : values) {
    for (std::size_t byte = 0; byte < value.size(); ++byte) {
      std::string damaged = value;
      damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << byte % 8));
      cold_.commit(MetadataValues{{key, damaged}});
      ASSERT_THAT(
          read, ThrowsMessage<Error>(AllOf(HasSubstr(kDirectory), HasSubstr("'" + key + "'"), HasSubstr("checksum"))));
    }
    cold_.commit(MetadataValues{{key, value}});
  }
}

TEST_F(CheckpointImage, IsRefusedWhenAValueIsMissingOrOfTheWrongSize) {
  const auto reading = [this](NodeId nodes) {
    return [this, nodes] { read_checkpoint_entries(cold_, nodes, 1, kDirectory); };
  };
  EXPECT_THAT([this] { read_checkpoint_head(cold_, kDirectory); },
              ThrowsMessage<Error>(AllOf(HasSubstr(kDirectory), HasSubstr("'checkpoint' is missing"))));
  cold_.commit(checkpoint_values(head_of(5, {{1, "", {}}}), random_entries(5)));
  EXPECT_NO_THROW(reading(5)());
  EXPECT_THAT(reading(6), ThrowsMessage<Error>(AllOf(HasSubstr(kDirectory), HasSubstr("wrong size"))));
  EXPECT_THAT(reading(4), ThrowsMessage<Error>(AllOf(HasSubstr(kDirectory), HasSubstr("wrong size"))));
  EXPECT_THAT(reading(65537), ThrowsMessage<Error>(HasSubstr("slots/1/000000")));
  cold_.commit(MetadataValues{{"checkpoint", "short"}});
  EXPECT_THAT([this] { read_checkpoint_head(cold_, kDirectory); }, ThrowsMessage<Error>(HasSubstr("too short")));
}

TEST_F(CheckpointImage, OfAnotherStoreIsRefused) {
  Manifest manifest;
  manifest.store_id = 0xfedcba9876543210;
  manifest.nodes = 5;
  EXPECT_NO_THROW(head_of(5, {}).require(manifest, "/nvme/run", kDirectory));
  const auto refused = ThrowsMessage<Error>(AllOf(HasSubstr("/nvme/run;"), HasSubstr(kDirectory)));
  EXPECT_THAT([&] { head_of(6, {}).require(manifest, "/nvme/run", kDirectory); }, refused);
  manifest.store_id = 1;
  EXPECT_THAT([&] { head_of(5, {}).require(manifest, "/nvme/run", kDirectory); }, refused);
}

}  // namespace
}  // namespace shoal
