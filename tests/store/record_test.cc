#include "store/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/store/block_buffer.h"

namespace shoal {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::uint64_t kStore = 0x1234567890abcdef;
constexpr RecordId kId = {Part::kPrivate, 70000, 41};

// A sealed record of random contents.
class SealedRecord {
 public:
  explicit SealedRecord(std::uint64_t bytes = kBlockBytes) : buffer_(bytes) {
    std::mt19937 random(1);
    std::ranges::generate(buffer_.span(), [&] { return static_cast<std::byte>(random()); });
    seal(buffer_.data(), kId, bytes, kStore);
  }

  std::span<std::byte> bytes() { return buffer_.span(); }
  std::byte* data() { return buffer_.data(); }
  std::string defect_as(const RecordId& expected, std::uint64_t store = kStore) {
    return defect(buffer_.data(), expected, buffer_.span().size(), store);
  }

 private:
  BlockBuffer buffer_;
};

TEST(Record, IsWholeAfterSealing) {
  for (const std::uint64_t blocks : {1, 2, 61}) EXPECT_THAT(SealedRecord(blocks * kBlockBytes).defect_as(kId), "");
}

TEST(Record, KeepsItsPayloadOnACacheLineWhenSealed) {
  BlockBuffer buffer(kBlockBytes, std::byte{7});
  seal(buffer.data(), kId, kBlockBytes, kStore);
  EXPECT_EQ(payload(buffer.data()) - buffer.data(), 64);
  const auto behind_header = buffer.span().subspan(64);
  EXPECT_EQ(std::ranges::count(behind_header, std::byte{7}), kBlockBytes - 64) << "sealing changed the payload";
}

TEST(Record, ReportsAnyFlippedBit) {
  for (const std::uint64_t blocks : {1, 2}) {
    SealedRecord record(blocks * kBlockBytes);
    for (std::size_t bit = 0; bit < 8 * record.bytes().size(); ++bit) {
      const auto mask = static_cast<std::byte>(1u << bit % 8);
      record.bytes()[bit / 8] ^= mask;
      ASSERT_THAT(record.defect_as(kId), Not(IsEmpty())) << "bit " << bit % 8 << " of byte " << bit / 8;
      record.bytes()[bit / 8] ^= mask;
    }
    EXPECT_THAT(record.defect_as(kId), "");
  }
}

TEST(Record, ReportsBothChecksumsOfADamagedPayload) {
  SealedRecord record;
  const std::string stored = [&] {
    std::uint64_t checksum = 0;
    std::memcpy(&checksum, record.data() + offsetof(RecordHeader, checksum), sizeof(checksum));
    char text[17];
    std::snprintf(text, sizeof(text), "%016lx", static_cast<unsigned long>(checksum));
    return std::string(text);
  }();
  payload(record.data())[100] ^= std::byte{1};
  EXPECT_THAT(record.defect_as(kId), AllOf(HasSubstr("checksum " + stored + " is stored"), HasSubstr("was computed")));
}

TEST(Record, SaysWhoseItIsWhenItIsAnotherNodesOrPart) {
  SealedRecord record;
  const std::string held = "the private record of node 70000";
  EXPECT_THAT(record.defect_as({Part::kPrivate, 70001, 41}), HasSubstr(held));
  EXPECT_THAT(record.defect_as({Part::kPublic, 70000, 41}), HasSubstr(held));
}

TEST(Record, NamesTheVersionItHasAndTheOneExpected) {
  SealedRecord record;
  EXPECT_THAT(record.defect_as({Part::kPrivate, 70000, 42}), AllOf(HasSubstr("version 41"), HasSubstr("version 42")));
}

TEST(Record, IsNotTakenFromAnotherStore) {
  EXPECT_THAT(SealedRecord().defect_as(kId, kStore + 1), HasSubstr("another store"));
}

TEST(Record, IsNotReadAsOneOfAnotherSize) {
  SealedRecord record;
  EXPECT_THAT(defect(record.data(), kId, 2 * kBlockBytes, kStore), HasSubstr("no record header of this layout"));
}

TEST(Record, IsNotSeenInAnEmptySlot) {
  BlockBuffer zeros(kBlockBytes);
  EXPECT_THAT(defect(zeros.data(), kId, kBlockBytes, kStore), HasSubstr("no record header"));
}

TEST(Record, HasTheSameHeaderWhateverTheFrameHeldBefore) {
  BlockBuffer one(kBlockBytes, std::byte{0xff});
  BlockBuffer other(kBlockBytes);
  for (BlockBuffer* buffer : {&one, &other}) {
    std::memset(payload(buffer->data()), 3, kBlockBytes - sizeof(RecordHeader));
    seal(buffer->data(), kId, kBlockBytes, kStore);
  }
  EXPECT_EQ(std::memcmp(one.data(), other.data(), sizeof(RecordHeader)), 0);
}

TEST(AllZero, FindsOneSetBitAnywhere) {
  for (std::size_t size = 0; size <= 130; ++size) {
    std::vector<std::byte> bytes(size + 1);
    bytes[size] = std::byte{0xff};  // just behind the range: not to be looked at
    const std::span<const std::byte> range(bytes.data(), size);
    EXPECT_TRUE(all_zero(range)) << size << " zeros";
    for (std::size_t at = 0; at < size; ++at) {
      for (const std::byte bit : {std::byte{1}, std::byte{0x80}}) {
        bytes[at] = bit;
        EXPECT_FALSE(all_zero(range)) << "byte " << at << " of " << size << " is set";
      }
      bytes[at] = std::byte{0};
    }
  }
}

TEST(AllZero, IsNotFooledByEqualBytes) { EXPECT_FALSE(all_zero(std::vector<std::byte>(100, std::byte{5}))); }

}  // namespace
}  // namespace shoal
