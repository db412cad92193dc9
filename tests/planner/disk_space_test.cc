#include "planner/disk_space.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

DiskShare share(const char* host, std::uint64_t file_system, std::uint64_t free, std::uint64_t needed) {
  return {host, "/folder", file_system, free, 0, needed};
}

TEST(DiskSpace, AddsUpWhoSharesAFileSystem) {
  const auto disks = add_up({share("a", 1, 100, 60), share("a", 1, 100, 60), share("a", 2, 100, 60)});
  ASSERT_EQ(disks.size(), 2U);
  EXPECT_EQ(disks[0].needed_bytes, 120U);
  EXPECT_FALSE(disks[0].fits()) << "each fits alone, and not both";
  EXPECT_TRUE(disks[1].fits());
}

TEST(DiskSpace, OfDifferentHostsAreDifferent) {
  const auto disks = add_up({share("a", 1, 100, 60), share("b", 1, 100, 60)});
  ASSERT_EQ(disks.size(), 2U);
  EXPECT_TRUE(disks[0].fits() && disks[1].fits());
}

TEST(DiskSpace, WhatIsThereAlreadyIsFreeForWhoTakesItUp) {
  DiskShare first = share("a", 1, 100, 150);
  first.there_bytes = 40;
  DiskShare second = share("a", 1, 90, 10);  // looked at a little later
  second.there_bytes = 20;
  const auto disks = add_up({first, second});
  EXPECT_EQ(disks[0].needed_bytes, 160U);
  EXPECT_EQ(disks[0].available_bytes, 90U + 40 + 20);
}

TEST(DiskSpace, LooksAtTheNearestFolderAndMakesNone) {
  const TemporaryDirectory here;
  const DiskShare there = share_of_disk(here.path() / "not" / "there", "a");
  EXPECT_EQ(there.file_system, share_of_disk(here.path(), "a").file_system);
  EXPECT_GT(there.free_bytes, 0U);
  EXPECT_TRUE(std::filesystem::is_empty(here.path()));
  EXPECT_EQ(bytes_below(here.path() / "not"), 0U);
  std::filesystem::create_directory(here.path() / "cold");
  std::ofstream(here.path() / "cold" / "file") << std::string(100'000, 'x') << std::flush;
  EXPECT_GE(bytes_below(here.path()), 100'000U);
}

}  // namespace
}  // namespace shoal
