#include "comm/arena_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "comm/mpi_error.h"
#include "store/types.h"
#include "tests/comm/ranks.h"

namespace shoal::testing {
namespace {

constexpr std::uint64_t kBytes = 3 << 20;

std::byte mark(unsigned rank, std::uint64_t at) { return static_cast<std::byte>(rank * 50 + at % 41); }

void fill(const ArenaWindow& window) {
  for (std::uint64_t at = 0; at < window.memory().size(); ++at) window.memory()[at] = mark(ranks().rank(), at);
  ranks().barrier();
}

std::vector<std::byte> got(ArenaWindow& window, unsigned rank, std::uint64_t offset, std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  MPI_Request request = MPI_REQUEST_NULL;
  ranks().run([&, started = false]() mutable {
    if (!std::exchange(started, true)) window.get(rank, offset, out, &request);
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  });
  return out;
}

std::uint64_t rss_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssShmem:")) return std::stoull(line.substr(9)) * 1024;
  }
  return 0;
}

TEST(ArenaWindow, IsZeroedAlignedMemory) {
  const ArenaWindow window(ranks(), kBytes, HostReads::kMapped, kBytes);
  EXPECT_EQ(window.memory().size(), kBytes);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(window.memory().data()) % kBlockBytes, 0U);
  EXPECT_TRUE(std::ranges::all_of(window.memory(), [](std::byte each) { return each == std::byte{0}; }));
}

TEST(ArenaWindow, OfRanksOfOneHostIsMappedAndIsNotWhereTheyAreToldToBeStrangers) {
  const ArenaWindow mapped(ranks(), kBytes, HostReads::kMapped, kBytes);
  const ArenaWindow strangers(ranks(), kBytes, HostReads::kOneSided, kBytes);
  for (unsigned rank = 0; rank < ranks().size(); ++rank) {
    EXPECT_EQ(mapped.mapped(rank) == nullptr, rank == ranks().rank());
    EXPECT_EQ(strangers.mapped(rank), nullptr);
  }
  EXPECT_FALSE(mapped.reads_one_sided());
  EXPECT_TRUE(strangers.reads_one_sided());
}

TEST(ArenaWindow, IsReadByOthersThroughTheMappingAndWithGetsAlike) {
  // Not the same size everywhere: each rank has its own number of nodes.
  ArenaWindow window(ranks(), kBytes + ranks().rank() * kBlockBytes, HostReads::kMapped, kBytes);
  fill(window);
  for (unsigned rank = 0; rank < ranks().size(); ++rank) {
    if (rank == ranks().rank()) continue;
    const std::uint64_t last = kBytes + rank * kBlockBytes - 100;
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{123'457}, last}) {
      const auto bytes = got(window, rank, offset, 100);
      for (std::uint64_t i = 0; i < bytes.size(); ++i) {
        ASSERT_EQ(bytes[i], mark(rank, offset + i)) << "rank " << rank << " at " << offset + i;
        ASSERT_EQ(window.mapped(rank)[offset + i], bytes[i]);
      }
    }
  }
  ranks().barrier();
}

// With the bytes that may be mapped.
class MappedPages : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  static constexpr std::uint64_t kLarge = 64 << 20;
  static constexpr std::uint64_t kRecord = 100'000;

  MappedPages() : window_(ranks(), kLarge, HostReads::kMapped, GetParam()) {
    fill(window_);
    before_ = rss_bytes();
  }
  ~MappedPages() override { ranks().barrier(); }
  void copy(std::uint64_t offset, std::uint64_t bytes) {
    std::vector<std::byte> record(bytes);
    window_.copy(other_, offset, record);
    for (std::uint64_t at = 0; at < bytes; at += 999) ASSERT_EQ(record[at], mark(other_, offset + at));
    look();
  }
  void look() {
    const std::uint64_t now = rss_bytes();
    most_ = std::max(most_, now - std::min(now, before_));
  }

  // Of a few huge pages, the one that is also the own window's decides what is seen.
  bool many_pieces() const { return GetParam() >= 8 * window_.mapped_at_once(); }
  void expect_mapped(std::uint64_t more_than) const {
    if (many_pieces()) {
      EXPECT_GT(most_, more_than);
    }
    // With what one page fault maps before and after the window.
    EXPECT_LE(most_, GetParam() + 2 * window_.mapped_at_once());
  }

  ArenaWindow window_;
  const unsigned other_ = (ranks().rank() + 1) % ranks().size();
  std::uint64_t before_ = 0;
  std::uint64_t most_ = 0;
};

TEST_P(MappedPages, AreLetGoBeforeTheyAreTooMany) {
  for (std::uint64_t offset = 0; offset + kRecord <= kLarge; offset += kRecord) copy(offset, kRecord);
  expect_mapped(GetParam() / 2);
}

TEST_P(MappedPages, AroundSmallRecordsFarFromEachOtherAreLetGoAsWell) {
  for (std::uint64_t offset = 0; offset < kLarge; offset += 1 << 20) copy(offset, 1000);
  expect_mapped(0);
}

TEST_P(MappedPages, OfARecordThatIsLargerThanThatAreLetGoAsWell) {
  copy(12'345, kLarge - 20'000);
  expect_mapped(0);
}

TEST_P(MappedPages, ThatAreReadInPlaceStayCountedUntilTheReaderIsDone) {
  std::vector<const std::byte*> in_place;
  const auto touch = [&] {
    for (const std::byte* const record : in_place) {
      for (std::uint64_t at = 0; at < kRecord; at += kBlockBytes) {
        ASSERT_EQ(record[at], mark(other_, static_cast<std::uint64_t>(record + at - window_.mapped(other_))));
      }
    }
    look();
  };
  std::uint64_t offset = 0;
  while (const std::byte* const record = window_.begin_in_place(other_, offset, kRecord)) {
    in_place.push_back(record);
    offset += kRecord;
  }
  EXPECT_LE(in_place.size() * kRecord, GetParam() / 4 * 3);
  if (!many_pieces()) {
    EXPECT_TRUE(in_place.empty()) << "what is copied needs all of it";
    return;
  }
  EXPECT_GT(in_place.size(), 5U);
  // More readers of the same pages are no more pages.
  EXPECT_EQ(window_.begin_in_place(other_, 0, kRecord), in_place[0]);
  // They are touched late, when the pages of others have come and gone.
  for (; offset + kRecord <= kLarge; offset += kRecord) {
    copy(offset, kRecord);
    touch();
  }
  expect_mapped(GetParam() / 2);
  const std::uint64_t elsewhere = kLarge / 2;
  window_.end_in_place(other_, in_place[0], kRecord);
  EXPECT_EQ(window_.begin_in_place(other_, elsewhere, kRecord), nullptr) << "it has another reader";
  for (const std::byte* const record : in_place) window_.end_in_place(other_, record, kRecord);
  EXPECT_NE(window_.begin_in_place(other_, elsewhere, kRecord), nullptr);
}

// The least that there is, and enough to read in place from huge pages too.
INSTANTIATE_TEST_SUITE_P(Bytes, MappedPages, ::testing::Values(4 << 20, 16 << 20));

TEST(ArenaWindow, NamesItsComponentAndWhetherProgressIsPassive) {
  const ArenaWindow window(ranks(), kBytes, HostReads::kMapped, kBytes);
  EXPECT_NE(window.component(), "unknown");
  EXPECT_GT(window.self_test_seconds(), 0);
  EXPECT_THAT(window.description(),
              ::testing::AllOf(::testing::HasSubstr("osc/" + window.component()), ::testing::HasSubstr("progress")));
  if (std::getenv("SHOAL_HUGE_SHM") != nullptr) {  // in_huge_pages says so
    EXPECT_THAT(window.description(), ::testing::Not(::testing::HasSubstr("small pages")));
  }
}

}  // namespace
}  // namespace shoal::testing
