#include "store/size_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "store/error.h"

namespace shoal {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kGiB = kKiB * kKiB * kKiB;

TEST(SizeText, ReadsPlainNumbersAsBytes) {
  EXPECT_EQ(parse_size("0"), 0u);
  EXPECT_EQ(parse_size("1048576"), 1048576u);
  EXPECT_EQ(parse_size("100B"), 100u);
}

TEST(SizeText, TellsPowersOf1000FromPowersOf1024) {
  EXPECT_EQ(parse_size("500MB"), 500'000'000u);
  EXPECT_EQ(parse_size("500MiB"), 500 * kKiB * kKiB);
  EXPECT_EQ(parse_size("3TB"), 3'000'000'000'000u);
  EXPECT_EQ(parse_size("3TiB"), 3 * kKiB * kGiB);
}

TEST(SizeText, DoesNotCareAboutCaseOrASpaceBeforeTheUnit) {
  EXPECT_EQ(parse_size("4gib"), 4 * kGiB);
  EXPECT_EQ(parse_size("4 GiB"), 4 * kGiB);
  EXPECT_EQ(parse_size("1.5 KIB"), 1536u);
}

TEST(SizeText, RefusesWhatIsNotASizeAndQuotesIt) {
  for (const std::string text :
       {"", "GiB", "4G", "4Gi", "-1", "4GiBs", "0x10", "four", "1e30", "nan", "inf", "20000000TiB"}) {
    try {
      parse_size(text);
      ADD_FAILURE() << "'" << text << "' was taken for a size";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
      EXPECT_THAT(error.what(), testing::HasSubstr("'" + text + "'"));
    }
  }
}

TEST(SizeText, WritesThreeDigitsAndABinaryUnit) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(kKiB), "1.00 KiB");
  EXPECT_EQ(size_text(512 * kKiB * kKiB), "512 MiB");
  EXPECT_EQ(size_text(4'005'057'004), "3.73 GiB");
  EXPECT_EQ(size_text(5000 * kKiB * kGiB), "5000 TiB");
}

TEST(SizeText, ReadsBackWhatItWroteToWithinHalfAPercent) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t bytes = random() >> (2 + random() % 60);
    const auto expected = static_cast<double>(bytes);
    EXPECT_NEAR(static_cast<double>(parse_size(size_text(bytes))), expected, expected * 0.005) << size_text(bytes);
  }
}

}  // namespace
}  // namespace shoal
