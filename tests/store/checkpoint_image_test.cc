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

using Values = std::vector<std::pair<std::string, std::string>>;

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

  void expect_round_trip(const CheckpointHead& head, const std::vector<SlotEntry>& entries) {
    cold_.commit(checkpoint_values(head, entries));
    const CheckpointHead read = read_checkpoint_head(cold_, kDirectory);
    EXPECT_EQ(read.store_id, head.store_id);
    EXPECT_EQ(read.nodes, head.nodes);
    EXPECT_EQ(read.epoch, head.epoch);
    EXPECT_EQ(read.note, head.note);
    ASSERT_THAT(read.garbage, SizeIs(head.garbage.size()));
    for (std::size_t i = 0; i < head.garbage.size(); ++i) {
      EXPECT_EQ(read.garbage[i].part, head.garbage[i].part);
      EXPECT_EQ(read.garbage[i].node, head.garbage[i].node);
      EXPECT_EQ(read.garbage[i].stamp, head.garbage[i].stamp);
    }
    const std::vector<SlotEntry> entries_read = read_checkpoint_entries(cold_, read, kDirectory);
    ASSERT_THAT(entries_read, SizeIs(entries.size()));
    for (std::size_t i = 0; i < entries.size(); ++i) {
      ASSERT_EQ(entries_read[i].version, entries[i].version) << "node " << i;
      for (const Part part : kParts) {
        ASSERT_EQ(entries_read[i].location[index(part)], entries[i].location[index(part)]) << "node " << i;
      }
    }
  }

  TemporaryDirectory directory_{fast_directory()};
  MemoryBudget budget_{64 << 20};
  ColdTier cold_{{directory_.path() / "cold", kColdMinimumBytes, true}, budget_};
};

TEST_F(CheckpointImage, ComesBackAsItWasCommitted) {
  CheckpointHead head{0xfedcba9876543210, 100, 42, "round 7", {}};
  head.garbage = {{Part::kPublic, 3, 85}, {Part::kPrivate, 99, Location::kMaxStamp}};
  expect_round_trip(head, random_entries(100));
}

TEST_F(CheckpointImage, ComesBackWhenItsTableTakesSeveralValues) {
  for (const NodeId nodes : {1u, 65536u, 65537u, 200000u}) {
    expect_round_trip({1, nodes, 1, "", {}}, random_entries(nodes));
  }
}

TEST_F(CheckpointImage, KeepsAnyBytesAsTheNote) {
  std::string note;
  for (int byte = 0; byte < 256; ++byte) note += static_cast<char>(byte);
  expect_round_trip({1, 1, 1, note, {}}, random_entries(1));
  expect_round_trip({1, 1, 2, "", {}}, random_entries(1));
}

TEST_F(CheckpointImage, ReplacesTheOneBefore) {
  expect_round_trip({1, 10, 1, "first", {{Part::kPublic, 3, 1}}}, random_entries(10));
  expect_round_trip({1, 10, 2, "second", {}}, std::vector<SlotEntry>(10));
}

TEST_F(CheckpointImage, IsRefusedWithAnyBitOfItsValuesFlipped) {
  const CheckpointHead head{1, 5, 3, "note", {{Part::kPublic, 3, 1}}};
  const Values values = checkpoint_values(head, random_entries(5));
  ASSERT_THAT(values, SizeIs(2));
  cold_.commit(values);
  const auto read = [this] { read_checkpoint_entries(cold_, read_checkpoint_head(cold_, kDirectory), kDirectory); };
  ASSERT_NO_THROW(read());
  for (const auto& [key, value] : values) {
    for (std::size_t byte = 0; byte < value.size(); ++byte) {
      std::string damaged = value;
      damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << byte % 8));
      cold_.commit(Values{{key, damaged}});
      ASSERT_THAT(
          read, ThrowsMessage<Error>(AllOf(HasSubstr(kDirectory), HasSubstr("'" + key + "'"), HasSubstr("checksum"))));
    }
    cold_.commit(Values{{key, value}});
  }
}

TEST_F(CheckpointImage, IsRefusedWhenAValueIsMissingOrOfTheWrongSize) {
  const auto reading = [this](NodeId nodes) {
    return [this, nodes] { read_checkpoint_entries(cold_, {1, nodes, 1, "", {}}, kDirectory); };
  };
  EXPECT_THAT([this] { read_checkpoint_head(cold_, kDirectory); },
              ThrowsMessage<Error>(AllOf(HasSubstr(kDirectory), HasSubstr("'checkpoint' is missing"))));
  cold_.commit(checkpoint_values({1, 5, 1, "", {}}, random_entries(5)));
  EXPECT_NO_THROW(reading(5)());
  EXPECT_THAT(reading(6), ThrowsMessage<Error>(AllOf(HasSubstr(kDirectory), HasSubstr("wrong size"))));
  EXPECT_THAT(reading(4), ThrowsMessage<Error>(AllOf(HasSubstr(kDirectory), HasSubstr("wrong size"))));
  EXPECT_THAT(reading(65537), ThrowsMessage<Error>(HasSubstr("slots/000000")));
  cold_.commit(Values{{"checkpoint", "short"}});
  EXPECT_THAT([this] { read_checkpoint_head(cold_, kDirectory); }, ThrowsMessage<Error>(HasSubstr("too short")));
}

}  // namespace
}  // namespace shoal
