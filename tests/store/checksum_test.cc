#include "store/checksum.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "store/checksum_copies.h"

namespace shoal {
namespace {

// Short inputs, one block of XXH3 (1,024 bytes) and its neighbours, many blocks, a LeNet-5 record.
const std::vector<std::size_t> kSizes = {0, 1, 16, 17, 128, 129, 240, 241, 256, 1023, 1024, 1025, 4096, 65537, 249856};

std::vector<std::uint8_t> random_bytes(std::size_t size, std::mt19937& random) {
  std::vector<std::uint8_t> bytes(size);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::uint8_t>(random()); });
  return bytes;
}

TEST(Checksum, IsTheLibrarysXxh3) {
  std::mt19937 random(1);
  for (const std::size_t size : kSizes) {
    const std::vector<std::uint8_t> bytes = random_bytes(size, random);
    for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{0x9e3779b97f4a7c15}}) {
      EXPECT_EQ(xxh3(bytes.data(), size, seed), XXH3_64bits_withSeed(bytes.data(), size, seed)) << size;
    }
  }
}

void expect_librarys_xxh3(const Xxh3Copy& copy) {
  std::mt19937 random(3);
  XXH3_state_t* const state = XXH3_createState();
  for (const std::size_t size : kSizes) {
    const std::vector<std::uint8_t> bytes = random_bytes(size, random);
    EXPECT_EQ(copy.hash(bytes.data(), size, 5), XXH3_64bits_withSeed(bytes.data(), size, 5)) << size;
    XXH3_64bits_reset_withSeed(state, 5);
    copy.update(state, bytes.data(), size / 3);
    copy.update(state, bytes.data() + size / 3, size - size / 3);
    EXPECT_EQ(XXH3_64bits_digest(state), XXH3_64bits_withSeed(bytes.data(), size, 5)) << size;
  }
  XXH3_freeState(state);
}

TEST(Checksum, TheCopyForAvx2IsTheLibrarysXxh3) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this processor has no AVX2";
  expect_librarys_xxh3(xxh3_avx2());
}

TEST(Checksum, TheCopyForAvx512IsTheLibrarysXxh3) {
  if (!__builtin_cpu_supports("avx512f")) GTEST_SKIP() << "this processor has no AVX-512";
  expect_librarys_xxh3(xxh3_avx512());
}

TEST(Checksum, IsTheSameInAnyPieces) {
  std::mt19937 random(2);
  Xxh3InPieces hash;
  for (const std::size_t size : kSizes) {
    const std::vector<std::uint8_t> bytes = random_bytes(size, random);
    for (const std::size_t most : {7, 300, 4096, 100'000}) {
      hash.begin(size);
      for (std::size_t at = 0, piece = 0; at < size; at += piece) {
        piece = std::min<std::size_t>(1 + random() % most, size - at);
        hash.add(bytes.data() + at, piece);
      }
      EXPECT_EQ(hash.digest(), xxh3(bytes.data(), size, size)) << size << " in pieces of up to " << most;
    }
  }
}

}  // namespace
}  // namespace shoal
