#include "store/record_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/store/block_buffer.h"

namespace shoal {
namespace {

constexpr std::uint64_t kStore = 77;
constexpr RecordId kId = {Part::kPublic, 12, 3};

TEST(RecordCheck, SaysInPiecesOfAnySizeWhatDefectSaysAtOnce) {
  std::mt19937 random(1);
  RecordCheck check;
  for (unsigned repeat = 0; repeat < 300; ++repeat) {
    const std::uint64_t bytes = (1 + random() % 20) * kBlockBytes;
    BlockBuffer buffer(bytes);
    std::ranges::generate(buffer.span(), [&] { return static_cast<std::byte>(random()); });
    seal(buffer.data(), kId, bytes, kStore);
    if (random() % 2 == 0) buffer.data()[random() % bytes] ^= std::byte{0x10};
    const RecordId expected = {Part::kPublic, 12, random() % 4 == 0 ? Version{4} : kId.version};
    check.begin(buffer.data(), expected, bytes, kStore);
    for (std::size_t at = 0; random() % 9 != 0;) {
      at = std::min<std::size_t>(at + random() % 9000, bytes + 100);  // may go past the end
      check.advance(buffer.data() + at);
    }
    if (random() % 2 == 0) check.advance_to_end();
    EXPECT_TRUE(check.due());
    EXPECT_EQ(check.finish(), defect(buffer.data(), expected, bytes, kStore));
    EXPECT_FALSE(check.due());
  }
}

TEST(RecordCheck, HasNothingToDoBeforeItBeginsAndWhenItIsCancelled) {
  RecordCheck check;
  check.advance(&check);
  check.advance_to_end();
  EXPECT_FALSE(check.due());
  BlockBuffer buffer(kBlockBytes);
  check.begin(buffer.data(), kId, kBlockBytes, kStore);
  check.cancel();
  EXPECT_FALSE(check.due());
}

}  // namespace
}  // namespace shoal
