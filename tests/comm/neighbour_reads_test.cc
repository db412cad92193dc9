// NeighbourReads between ranks, with the test in the place of the engine.
#include "comm/neighbour_reads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <utility>

#include "store/error.h"
#include "store/record.h"
#include "tests/comm/ranks.h"

namespace shoal::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

constexpr NodeId kNodes = 6;  // of every rank; each is a guest of the rank before
constexpr std::uint64_t kStoreId = 77;

// One rank's part: its window with a frame for each node, and the records of the next rank's nodes as they come.
class Side {
 public:
  explicit Side(HostReads path, std::int64_t floats = 1000)
      : layout_({{"parameters", DType::kFloat32, {floats}, Part::kPublic},
                 {"momentum", DType::kFloat32, {1}, Part::kPrivate}}),
        record_bytes_(layout_.record_bytes(Part::kPublic)),
        window_(ranks(), NeighbourReads::head_bytes(kNodes) + kNodes * record_bytes_, path, 1 << 30),
        // A record takes three gets.
        reads_(ranks(), window_,
               {guests(), std::vector<NodeId>(ranks().size(), kNodes), layout_, record_bytes_ / 3 + 1}),
        frames_(kNodes * record_bytes_) {
    reads_.connect(kStoreId);
    reads_.set_wake([this] {
      woken_ = true;
      woken_.notify_one();
    });
  }
  ~Side() {
    ranks().barrier();
    reads_.set_wake({});
  }

  NeighbourReads& reads() { return reads_; }
  static unsigned other() { return (ranks().rank() + 1) % ranks().size(); }
  static bool is(unsigned rank) { return ranks().rank() == rank; }

  std::byte* record(NodeId node) { return reads_.arena().data() + node * record_bytes_; }
  std::byte* frame(NodeId guest) { return frames_.data() + guest * record_bytes_; }
  std::uint64_t offset(NodeId node) const { return node * record_bytes_; }

  // Every byte of the payload tells the version.
  void write(NodeId node, Version version) {
    std::memset(payload(record(node)), static_cast<int>(version % 251), layout_.payload_bytes(Part::kPublic));
    seal(record(node), {Part::kPublic, node, version}, record_bytes_, kStoreId);
  }
  void list(NodeId node, Version version, std::uint64_t mark = 0) {
    DirectoryEntry& entry = reads_.directory()[node];
    entry.place = next_place(entry.place, offset(node), mark);
    entry.version = version;
  }
  void unlist(NodeId node) { reads_.directory()[node].version.exchange(0); }

  PeerLink::News news() {
    PeerLink::News news;
    while (!reads_.has_news()) {
      woken_.wait(false);
      woken_ = false;
    }
    reads_.collect(news);
    return news;
  }
  // Asks for a guest's record, and waits until it is there.
  void fetch(NodeId guest, std::uint64_t round = 1) {
    if (reads_.fetch(guest, guest, round, frame(guest))) return;
    EXPECT_THAT(news().arrived, ElementsAre(guest));
  }
  void expect_version(NodeId guest, Version version) {
    const std::span bytes(payload(frame(guest)), layout_.payload_bytes(Part::kPublic));
    const auto other =
        std::ranges::find_if(bytes, [&](std::byte each) { return each != static_cast<std::byte>(version % 251); });
    EXPECT_EQ(other - bytes.begin(), std::ssize(bytes)) << "the first byte of guest " << guest << " of another version";
  }
  Version version_in_header(NodeId guest) {
    RecordHeader header;
    std::memcpy(&header, frame(guest), sizeof(header));
    return header.version;
  }

 private:
  static std::vector<NeighbourReads::Guest> guests() {
    std::vector<NeighbourReads::Guest> all;
    for (NodeId node = 0; node < kNodes; ++node) all.push_back({other(), node});
    return all;
  }

  const StateLayout layout_;
  const std::uint64_t record_bytes_;
  ArenaWindow window_;
  NeighbourReads reads_;
  std::vector<std::byte> frames_;
  std::atomic<bool> woken_{false};
};

class BothPaths : public ::testing::TestWithParam<HostReads> {};

TEST_P(BothPaths, BringWhatIsListedWithoutTheOwnersHelp) {
  Side side(GetParam());
  for (NodeId node = 0; node < kNodes; ++node) {
    side.write(node, node + 5);
    side.list(node, node + 5);
  }
  ranks().barrier();
  side.reads().expect({5, 6, 7, 8, 9, 10});
  for (NodeId guest = 0; guest < kNodes; ++guest) {
    side.fetch(guest);
    side.expect_version(guest, guest + 5);
    EXPECT_NO_THROW(side.reads().verify(guest, side.frame(guest)));
  }
  const NeighbourFigures figures = side.reads().take_figures();
  const bool mapped = GetParam() == HostReads::kMapped;
  EXPECT_GT(mapped ? figures.shared_bytes : figures.one_sided_bytes, 0U);
  EXPECT_EQ(figures.bytes(), mapped ? figures.shared_bytes : figures.one_sided_bytes);
  EXPECT_EQ(figures.requested_bytes + figures.torn, 0U);
}

// Rank 1 serves, as an engine does: when it likes, and until it is told that the record may go.
TEST_P(BothPaths, AskForWhatIsNotListedAndLetGoOfIt) {
  Side side(GetParam());
  if (Side::is(0)) {
    side.reads().expect(std::vector<Version>(kNodes, 3));
    side.fetch(2);
    side.expect_version(2, 3);
    EXPECT_GT(side.reads().take_figures().requested_bytes, 0U);
  }
  if (Side::is(1)) {
    const auto asked = side.news().asked;
    ASSERT_THAT(asked, SizeIs(1));
    EXPECT_EQ(asked[0].node, 2U);
    EXPECT_EQ(asked[0].version, 3U);
    side.write(2, 3);
    side.reads().serve(asked[0], 9, 3, side.offset(2));
    EXPECT_THAT(side.news().released, ElementsAre(9));
  }
}

TEST_P(BothPaths, WaitForAVersionThatComesLate) {
  Side side(GetParam());
  side.write(1, 1);
  side.list(1, 1);
  ranks().barrier();
  if (Side::is(0)) {
    side.reads().expect(std::vector<Version>(kNodes, 2));
    side.fetch(1);
    side.expect_version(1, 2);
    EXPECT_NO_THROW(side.reads().verify(1, side.frame(1)));
  }
  if (Side::is(1)) {
    // Asked for what is not there yet, though the node is listed.
    const auto asked = side.news().asked;
    ASSERT_THAT(asked, SizeIs(1));
    EXPECT_EQ(asked[0].version, 2U);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    side.unlist(1);
    side.write(1, 2);
    side.reads().serve(asked[0], 0, 2, side.offset(1));
    EXPECT_THAT(side.news().released, ElementsAre(0));
  }
}

TEST_P(BothPaths, RefuseAVersionThatWasNotAskedFor) {
  Side side(GetParam());
  if (Side::is(0)) {
    side.reads().expect(std::vector<Version>(kNodes, 3));
    EXPECT_FALSE(side.reads().fetch(2, 2, 1, side.frame(2)));
    EXPECT_THAT([&] { side.news(); },
                ThrowsMessage<Error>(HasSubstr("rank 1 serves version 4 of its node 2, which was not asked for")));
  }
  if (Side::is(1)) {
    const auto asked = side.news().asked;
    ASSERT_THAT(asked, SizeIs(1));
    side.write(2, 4);
    side.reads().serve(asked[0], 0, 4, side.offset(2));
  }
}

TEST_P(BothPaths, TellHowFarTheSlowestOfTheOthersIs) {
  Side side(GetParam());
  side.reads().announce(10 + ranks().rank());
  ranks().barrier();
  EXPECT_EQ(side.reads().slowest(), Side::is(0) ? 11U : 10U);
  ranks().barrier();
  if (Side::is(0)) side.reads().announce(50);
  ranks().barrier();
  EXPECT_EQ(side.reads().slowest(), !Side::is(1) ? 11U : ranks().size() == 2 ? 50U : 12U);
}

// Rank 1 writes a listed record again and again, and the others read it. What they get is one version or another,
// whole.
TEST_P(BothPaths, NoticeARecordThatChangesWhileItIsReadAndReadItAgain) {
  Side side(GetParam(), 250'000);
  if (Side::is(1)) {
    std::mt19937 random(1);
    side.reads().announce(1);
    for (Version version = 1; side.reads().slowest() == 0; ++version) {
      side.unlist(0);
      side.write(0, version);
      side.list(0, version);
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 300);
      while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
      if (!side.reads().has_news()) continue;
      // Who found it changed too often asks, and it holds still.
      PeerLink::News news;
      side.reads().collect(news);
      for (const ServeRequest& request : news.asked) side.reads().serve(request, 0, version, side.offset(0));
      for (std::size_t released = 0; released < news.asked.size();) released += side.news().released.size();
    }
  } else if (Side::other() == 1) {
    side.reads().expect_any(1);
    std::uint64_t torn = 0;
    for (int reads = 0; reads < 20'000 && torn < 20 && !::testing::Test::HasFailure(); ++reads) {
      side.fetch(0);
      EXPECT_NO_THROW(side.reads().verify(0, side.frame(0)));
      side.expect_version(0, side.version_in_header(0));
      torn += side.reads().take_figures().torn;
    }
    EXPECT_GE(torn, 20U);
  }
  side.reads().announce(1);
}

INSTANTIATE_TEST_SUITE_P(Reads, BothPaths, ::testing::Values(HostReads::kMapped, HostReads::kOneSided),
                         [](const auto& path) { return path.param == HostReads::kMapped ? "mapped" : "one_sided"; });

// What is done to the directory meanwhile no owner would do; it shows who looks into it.
TEST(NeighbourReads, KnowWhereRecordsAreThatStayUntilTheRoundEnds) {
  Side side(HostReads::kOneSided);
  for (NodeId node = 0; node < kNodes; ++node) {
    side.write(node, 1);
    side.list(node, 1, node == 4 ? 0 : round_mark(7));
  }
  ranks().barrier();
  side.reads().expect(std::vector<Version>(kNodes, 1));
  side.fetch(0, 7);
  ranks().barrier();
  for (NodeId node = 0; node < kNodes; ++node) side.unlist(node);
  ranks().barrier();
  side.fetch(1, 7);
  side.expect_version(1, 1);
  EXPECT_EQ(side.reads().take_figures().requested_bytes, 0U);
  ranks().barrier();
  // The one does not stay, the other did.
  for (const auto& [node, round] : {std::pair<NodeId, std::uint64_t>{4, 7}, {2, 8}}) {
    if (Side::is(0)) {
      side.fetch(node, round);
      EXPECT_EQ(side.reads().take_figures().one_sided_bytes, 0U);
    }
    if (Side::is(1)) {
      const auto asked = side.news().asked;
      ASSERT_THAT(asked, SizeIs(1));
      EXPECT_EQ(asked[0].node, node);
      side.reads().serve(asked[0], 0, 1, side.offset(node));
      EXPECT_THAT(side.news().released, ElementsAre(0));
    }
    ranks().barrier();
  }
}

TEST(NeighbourReads, AreAnErrorThatNamesNodeAndRankWhenTheBytesAreNotThoseThatWereSealed) {
  Side side(HostReads::kOneSided);
  side.write(3, 1);
  side.record(3)[2000] ^= std::byte{1};
  side.list(3, 1);
  ranks().barrier();
  side.reads().expect(std::vector<Version>(kNodes, 1));
  side.fetch(3);
  EXPECT_THAT([&] { side.reads().verify(3, side.frame(3)); },
              ThrowsMessage<Error>(::testing::AllOf(HasSubstr("node 3 of rank " + std::to_string(Side::other())),
                                                    HasSubstr("damaged"), HasSubstr("checksum"))));
}

}  // namespace
}  // namespace shoal::testing
