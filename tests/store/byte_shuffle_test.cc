#include "store/byte_shuffle.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace shoal {
namespace {

std::vector<std::byte> random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(ByteShuffle, GroupsTheBytesOfElementsByPlaceAndKeepsTheTail) {
  for (std::size_t size = 0; size < 600; ++size) {
    const std::vector<std::byte> from = random_bytes(size, static_cast<unsigned>(size));
    std::vector<std::byte> to(size);
    byte_shuffle(from, to);
    const std::size_t elements = size / 4;
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t source = i < elements * 4 ? (i % elements) * 4 + i / elements : i;
      ASSERT_EQ(to[i], from[source]) << "size " << size << ", byte " << i;
    }
  }
}

TEST(ByteShuffle, IsUndoneExactlyAtAnySizeAndAlignment) {
  for (std::size_t size : {0, 1, 3, 4, 5, 63, 64, 65, 67, 127, 4096, 249856, 262143, 262144}) {
    for (std::size_t offset : {0, 1, 3}) {
      const std::vector<std::byte> from = random_bytes(size + offset, 7);
      const std::span<const std::byte> record = std::span(from).subspan(offset);
      std::vector<std::byte> shuffled(size), back(size + offset);
      byte_shuffle(record, shuffled);
      byte_unshuffle(shuffled, std::span(back).subspan(offset));
      ASSERT_TRUE(std::ranges::equal(record, std::span(back).subspan(offset))) << size << " at " << offset;
    }
  }
}

}  // namespace
}  // namespace shoal
