#include "store/slot_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include "store/error.h"
#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// What another process that opens the file sees of a node.
SlotEntry entry_in_file(const std::filesystem::path& path, NodeId node) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(kBlockBytes + node * sizeof(SlotEntry)));
  SlotEntry entry;
  file.read(reinterpret_cast<char*>(&entry), sizeof(entry));
  EXPECT_TRUE(file);
  return entry;
}

TEST(SlotTable, StartsWithEveryNodeNowhereAtVersionZero) {
  const SlotTable table({}, 100, 1);
  for (NodeId node = 0; node < 100; ++node) {
    EXPECT_EQ(table.version(node), 0u);
    EXPECT_TRUE(table.pending(node).is_nowhere());
    for (const Part part : kParts) EXPECT_TRUE(table.location(part, node).is_nowhere());
  }
}

TEST(SlotTable, KeepsTheOldVersionInSightUntilTheFlip) {
  SlotTable table({}, 3, 1);
  table.set_entry(1, {7, {Location::slab(10).word(), Location::slab(20).word()}});
  table.set_pending(1, Location::slab(11));
  EXPECT_EQ(table.version(1), 7u);
  EXPECT_EQ(table.location(Part::kPublic, 1), Location::slab(10));

  table.flip(1);
  EXPECT_EQ(table.version(1), 8u);
  EXPECT_EQ(table.location(Part::kPublic, 1), Location::slab(11));
  EXPECT_EQ(table.location(Part::kPrivate, 1), Location::slab(20));
  EXPECT_TRUE(table.pending(1).is_nowhere());
}

TEST(SlotTable, FlipsToTheVersionItWasGivenOnceAndCountsOnFromThere) {
  SlotTable table({}, 2, 1);
  table.set_pending_version(0, 41);
  EXPECT_EQ(table.version(0), 0u);
  table.flip(0);
  EXPECT_EQ(table.version(0), 41u);
  table.flip(0);
  EXPECT_EQ(table.version(0), 42u);
  EXPECT_EQ(table.version(1), 0u);
}

TEST(SlotTable, KeepsEveryNodesEntriesApart) {
  constexpr NodeId kNodes = 500;
  std::mt19937 random(1);
  SlotTable table({}, kNodes, 1);
  struct Expected {
    Version version = 0;
    Location published, own, pending;
  };
  std::vector<Expected> model(kNodes);
  for (int i = 0; i < 20000; ++i) {
    const auto node = static_cast<NodeId>(random() % kNodes);
    Expected& expected = model[node];
    const Location location = Location::slab(static_cast<Slot>(random() % Location::kMaxSlots));
    switch (random() % 4) {
      case 0: table.set_location(Part::kPublic, node, expected.published = location); break;
      case 1: table.set_location(Part::kPrivate, node, expected.own = location); break;
      case 2: table.set_pending(node, expected.pending = location); break;
      case 3:
        table.flip(node);
        expected = {expected.version + 1, expected.pending, expected.own, Location::nowhere()};
        break;
    }
  }
  for (NodeId node = 0; node < kNodes; ++node) {
    EXPECT_EQ(table.version(node), model[node].version);
    EXPECT_EQ(table.location(Part::kPublic, node), model[node].published);
    EXPECT_EQ(table.location(Part::kPrivate, node), model[node].own);
    EXPECT_EQ(table.pending(node), model[node].pending);
    EXPECT_EQ(table.entries()[node].version, model[node].version);
  }
}

TEST(SlotTable, ShowsItsEntriesToOtherReadersOfTheFile) {
  const TemporaryDirectory directory(fast_directory());
  const std::filesystem::path path = directory.path() / "slots";
  SlotTable table(path, 1000, 1);
  table.set_pending(999, Location::slab(5));
  EXPECT_EQ(entry_in_file(path, 999).version, 0u);
  table.flip(999);
  EXPECT_EQ(entry_in_file(path, 999).version, 1u);
  EXPECT_EQ(entry_in_file(path, 999).location[0], Location::slab(5).word());
}

TEST(SlotTable, TakesAsMuchFileAsItSaysItTakesMemory) {
  const TemporaryDirectory directory(fast_directory());
  for (const NodeId nodes : {1u, 204u, 205u, 100000u}) {
    const SlotTable table(directory.path() / "slots", nodes, 1);
    EXPECT_EQ(std::filesystem::file_size(directory.path() / "slots"), SlotTable::bytes_for(nodes));
    EXPECT_GE(SlotTable::bytes_for(nodes), nodes * (sizeof(SlotEntry) + sizeof(PendingEntry)));
  }
}

TEST(SlotTable, StartsAfreshWhereAnEarlierRunLeftItsFile) {
  const TemporaryDirectory directory(fast_directory());
  const std::filesystem::path path = directory.path() / "slots";
  SlotTable(path, 10, 1).flip(3);
  const SlotTable table(path, 10, 2);
  EXPECT_EQ(table.version(3), 0u);
  EXPECT_EQ(entry_in_file(path, 3).version, 0u);
}

TEST(SlotTable, NamesTheFileItCannotCreate) {
  EXPECT_THAT([] { SlotTable table("/nonexistent/slots", 10, 1); },
              ThrowsMessage<Error>(HasSubstr("/nonexistent/slots: No such file or directory")));
}

TEST(Location, IsExactlyOneOfItsFourKinds) {
  const std::vector<Location> slabs = {Location::slab(0), Location::slab(Location::kMaxSlots - 1)};
  const std::vector<Location> colds = {Location::cold(0), Location::cold(Location::kMaxStamp)};
  const auto kinds = [](Location location) {
    return std::vector<bool>{location.is_slab(), location.is_cold(), location.is_zero(), location.is_nowhere()};
  };
  for (const Location slab : slabs) EXPECT_EQ(kinds(slab), (std::vector<bool>{true, false, false, false}));
  for (const Location cold : colds) EXPECT_EQ(kinds(cold), (std::vector<bool>{false, true, false, false}));
  EXPECT_EQ(kinds(Location::zero()), (std::vector<bool>{false, false, true, false}));
  EXPECT_EQ(kinds(Location::nowhere()), (std::vector<bool>{false, false, false, true}));
  EXPECT_EQ(kinds(Location()), kinds(Location::nowhere()));
}

TEST(Location, ComesBackFromItsWord) {
  for (const Slot slot : {0u, 1u, 12345u, Location::kMaxSlots - 1}) {
    EXPECT_EQ(Location::from_word(Location::slab(slot).word()).slot(), slot);
  }
  for (const Epoch stamp : {0u, 1u, 12345u, Location::kMaxStamp}) {
    EXPECT_EQ(Location::from_word(Location::cold(stamp).word()).stamp(), stamp);
  }
  EXPECT_TRUE(Location::from_word(Location::zero().word()).is_zero());
}

TEST(ColdStamp, TellsAVersionFromItsSuccessorAndKnowsItsEpoch) {
  SlotTable table({}, 1, 1);
  for (Epoch epoch = 0; epoch < 4; ++epoch) {
    const Epoch before = cold_stamp(epoch, table.side(0));
    table.flip(0);
    EXPECT_NE(cold_stamp(epoch, table.side(0)), before);
    EXPECT_EQ(epoch_of_stamp(cold_stamp(epoch, table.side(0))), epoch);
  }
}

}  // namespace
}  // namespace shoal
