#include "store/piece_codec.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace shoal {
namespace {

constexpr std::size_t kLargest = 256 << 10;

std::vector<std::byte> gaussian_floats(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> weight(0.0F, 0.05F);
  std::vector<float> floats(size / 4 + 1);
  for (float& value : floats) value = weight(random);
  std::vector<std::byte> bytes(size);
  std::memcpy(bytes.data(), floats.data(), size);
  return bytes;
}

TEST(PieceCodec, GivesBackExactlyWhatItWasGivenAtAnySize) {
  PieceEncoder encoder(kLargest);
  PieceDecoder decoder(kLargest);
  for (std::size_t size : {1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 1000, 4096, 99999, 249856, 262143, 262144}) {
    const std::vector<std::byte> piece = gaussian_floats(size, static_cast<unsigned>(size));
    std::vector<std::byte> back(size, std::byte{0x55});
    ASSERT_TRUE(decoder.decode(encoder.encode(piece), back)) << size;
    ASSERT_EQ(back, piece) << size;
  }
}

TEST(PieceCodec, NeverGrowsNoiseByMoreThanOneByte) {
  std::mt19937 random(1);
  std::vector<std::byte> piece(249856);
  for (std::byte& byte : piece) byte = static_cast<std::byte>(random());
  PieceEncoder encoder(kLargest);
  EXPECT_EQ(encoder.encode(piece).size(), piece.size() + 1);
}

TEST(PieceCodec, ShrinksTrainedWeightsByMoreThanASeventh) {
  const std::vector<std::byte> piece = gaussian_floats(249856, 1);
  PieceEncoder encoder(kLargest);
  EXPECT_LT(encoder.encode(piece).size() * 7, piece.size() * 6);
}

TEST(PieceCodec, KeepsAnAllZeroPieceAsNothing) {
  PieceEncoder encoder(kLargest);
  PieceDecoder decoder(kLargest);
  const std::vector<std::byte> zeroes(5000);
  EXPECT_TRUE(encoder.encode(zeroes).empty());
  std::vector<std::byte> back(5000, std::byte{1});
  ASSERT_TRUE(decoder.decode({}, back));
  EXPECT_EQ(back, zeroes);

  std::vector<std::byte> almost(5000);
  almost.back() = std::byte{1};
  EXPECT_FALSE(encoder.encode(almost).empty());
}

TEST(PieceCodec, RefusesAnEncodingOfAnotherSize) {
  PieceEncoder encoder(kLargest);
  PieceDecoder decoder(kLargest);
  const std::vector<std::byte> piece = gaussian_floats(10001, 2);
  const std::span<const std::byte> encoded = encoder.encode(piece);
  for (std::size_t other : {1, 9997, 10000, 10002, 10005, 262144}) {
    std::vector<std::byte> back(other);
    EXPECT_FALSE(decoder.decode(encoded, back)) << other;
  }
  std::vector<std::byte> back(piece.size());
  for (std::size_t cut = 1; cut < encoded.size(); cut += 97)
    EXPECT_FALSE(decoder.decode(encoded.first(cut), back)) << cut;
}

TEST(PieceCodec, SurvivesAnyDamageWithoutReadingOrWritingOutOfBounds) {
  std::mt19937 random(3);
  PieceEncoder encoder(kLargest);
  PieceDecoder decoder(kLargest);
  const std::vector<std::byte> piece = gaussian_floats(4099, 3);
  const std::span<const std::byte> good = encoder.encode(piece);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> damaged(good.begin(), good.end());
    for (int flips = 0; flips < 3; ++flips) damaged[random() % damaged.size()] ^= std::byte{1} << random() % 8;
    std::vector<std::byte> back(piece.size());
    static_cast<void>(
        decoder.decode(damaged, back));  // RocksDB's checksum has spoken before; the sanitizers watch this
  }
}

}  // namespace
}  // namespace shoal
