#include "store/checkpoint_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>

#include "store/error.h"
#include "store/slab.h"
#include "tests/store/store_harness.h"

namespace shoal::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr NodeId kNodes = 9;

std::string contents(const std::filesystem::path& path) {
  std::string bytes(std::filesystem::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

// A closed store with two checkpoints, whose records are in slabs, in the cold tier and all zeros.
class CheckpointReaderTest : public ::testing::Test {
 protected:
  CheckpointReaderTest() {
    options_.directory = directory_.path() / "store";
    options_.layout = layout_of(300000, 3000);
    options_.nodes = kNodes;
    options_.max_reads_per_step = 2;
    options_.ram_bytes = StateStore::minimum_ram(options_);
    auto store = StateStore::create(options_);
    std::mt19937_64 random(2);
    run_both(*store, new_, creation_plan(kNodes), 1, 1);
    store->demote(std::vector<NodeId>{1, 3});
    store->checkpoint("old");
    old_ = new_;
    run_both(*store, new_, gossip_plan(kNodes, 2, random), 2, 1);
    store->demote(std::vector<NodeId>{2, 3});
    store->prepare_checkpoint("new");
  }

  CheckpointReader open(std::optional<std::uint64_t> epoch) {
    StoreOptions options;
    options.directory = options_.directory;
    options.open_epoch = epoch;
    return CheckpointReader(options);
  }
  static void expect_payload(CheckpointReader& reader, NodeId node, Part part, const Words& expected) {
    std::vector<std::byte> payload(reader.layout().payload_bytes(part));
    reader.read(node, part, payload.data());
    ASSERT_GE(payload.size(), expected.size() * sizeof(expected[0]));
    EXPECT_EQ(std::memcmp(payload.data(), expected.data(), expected.size() * sizeof(expected[0])), 0)
        << name(part) << " of node " << node;
  }
  static void expect_equal(CheckpointReader& reader, const Model& model) {
    ASSERT_EQ(reader.nodes(), kNodes);
    for (NodeId node = 0; node < kNodes; ++node) {
      EXPECT_EQ(reader.version(node), model.nodes[node].version);
      expect_payload(reader, node, Part::kPublic, model.nodes[node].published);
      expect_payload(reader, node, Part::kPrivate, model.nodes[node].own);
    }
  }

  TemporaryDirectory directory_;
  StoreOptions options_;
  Model new_{kNodes, layout_of(300000, 3000)};
  Model old_ = new_;
};

TEST_F(CheckpointReaderTest, ReadsEveryRecordOfEitherCheckpointFromWhereverItIs) {
  CheckpointReader old_reader = open(1);
  CheckpointReader new_reader = open(2);
  EXPECT_EQ(old_reader.epoch(), 1u);
  EXPECT_EQ(old_reader.note(), "old");
  EXPECT_EQ(new_reader.note(), "new");
  EXPECT_EQ(new_reader.layout().difference(options_.layout), std::nullopt);
  expect_equal(old_reader, old_);
  expect_equal(new_reader, new_);
  EXPECT_EQ(open(std::nullopt).epoch(), 2u);
  EXPECT_THAT([this] { open(3); }, ThrowsMessage<Error>(AllOf(HasSubstr("no checkpoint 3"), HasSubstr("1 and 2"))));
}

TEST_F(CheckpointReaderTest, ChangesNoFile) {
  const auto files = [this] {
    std::map<std::string, std::pair<std::filesystem::file_time_type, std::string>> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(options_.directory)) {
      found[entry.path().string()] = {entry.last_write_time(), entry.is_regular_file() ? contents(entry.path()) : ""};
    }
    return found;
  };
  const auto before = files();
  ASSERT_GT(before.size(), 8u);
  {
    CheckpointReader reader = open(1);
    expect_equal(reader, old_);
  }
  StateStore::checkpoints(options_);
  EXPECT_TRUE(files() == before);
}

TEST_F(CheckpointReaderTest, KeepsARunOutAndIsKeptOutByOne) {
  {
    const CheckpointReader reader = open(1);
    EXPECT_THAT([this] { StateStore::open(options_); }, ThrowsMessage<Error>(HasSubstr("is being read by another")));
    EXPECT_THAT([this] { StateStore::remove(options_); }, ThrowsMessage<Error>(HasSubstr("is being read by another")));
    EXPECT_EQ(StateStore::checkpoints(options_).size(), 2u);
  }
  const auto store = StateStore::open(options_);
  EXPECT_THAT([this] { open(2); }, ThrowsMessage<Error>(HasSubstr("in use by process")));
}

TEST_F(CheckpointReaderTest, SaysWhichRecordIsDamaged) {
  std::filesystem::path slab = slab_path(options_.directory, Part::kPublic);
  std::string bytes = contents(slab);
  for (std::size_t at = 5000; at < bytes.size(); at += options_.layout.record_bytes(Part::kPublic)) bytes[at] ^= 1;
  std::ofstream(slab, std::ios::binary) << bytes;
  CheckpointReader reader = open(2);
  std::vector<std::byte> payload(options_.layout.payload_bytes(Part::kPublic));
  EXPECT_THAT([&] { reader.read(4, Part::kPublic, payload.data()); },
              ThrowsMessage<Error>(AllOf(HasSubstr("public record of node 4 is damaged"), HasSubstr(slab.string()),
                                         HasSubstr("checksum"))));
  EXPECT_NO_THROW(reader.read(4, Part::kPrivate, payload.data()));
  EXPECT_NO_THROW(reader.read(3, Part::kPublic, payload.data())) << "it is in the cold tier";
  std::filesystem::resize_file(slab, 4096);
  EXPECT_THAT([&] { reader.read(4, Part::kPublic, payload.data()); }, ThrowsMessage<Error>(HasSubstr(slab.string())));
}

TEST_F(CheckpointReaderTest, RefusesNodesThatAreNotThereOrWereNeverCreated) {
  CheckpointReader reader = open(1);
  std::byte payload{};
  EXPECT_THAT([&] { reader.version(kNodes); }, ThrowsMessage<Error>(HasSubstr("there is no node 9")));
  EXPECT_THAT([&] { reader.read(kNodes, Part::kPublic, &payload); }, ThrowsMessage<Error>(HasSubstr("no node 9")));
  StoreOptions other = options_;
  other.directory = directory_.path() / "empty";
  StateStore::create(other);
  CheckpointReader empty(other);
  EXPECT_EQ(empty.version(4), 0u);
  EXPECT_THAT([&] { empty.read(4, Part::kPublic, &payload); },
              ThrowsMessage<Error>(HasSubstr("node 4 has never been created")));
}

TEST_F(CheckpointReaderTest, RefusesTheColdTierOfAnotherStore) {
  StoreOptions other = options_;
  other.directory = directory_.path() / "other";
  StateStore::create(other);
  other.cold_directory = options_.directory / "cold";
  EXPECT_THAT([&] { CheckpointReader reader(other); }, ThrowsMessage<Error>(HasSubstr("belongs to another store")));
}

TEST_F(CheckpointReaderTest, TakesLittleMemoryAndSaysHowMuch) {
  EXPECT_EQ(open(1).memory_bytes(),
            kColdMinimumBytes + kNodes * sizeof(SlotEntry) + options_.layout.record_bytes(Part::kPublic));
}

}  // namespace
}  // namespace shoal::testing
