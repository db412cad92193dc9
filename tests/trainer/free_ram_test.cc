#include "trainer/free_ram.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "store/error.h"
#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// A machine with 8 GiB free, as its files say.
class FreeRam : public testing::Test {
 protected:
  FreeRam() { write("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n"); }

  void write(const std::string& file, const std::string& text) const {
    const auto path = root_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void write_bytes(const std::string& file, std::uint64_t bytes) const { write(file, std::to_string(bytes) + "\n"); }
  std::uint64_t free() const { return free_ram(root_.path()); }

  const TemporaryDirectory root_{fast_directory()};
};

TEST_F(FreeRam, IsTheMachinesWithoutCgroups) {
  EXPECT_EQ(free(), 8 * kGiB);
  write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(free(), 8 * kGiB);
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/memory.max", "max\n");
  EXPECT_EQ(free(), 8 * kGiB);
}

TEST_F(FreeRam, IsWhatTheTightestGroupOfVersionTwoLeaves) {
  write("proc/self/cgroup", "0::/slurm/job/step\n");
  write("sys/fs/cgroup/slurm/job/step/memory.max", "max\n");
  write_bytes("sys/fs/cgroup/slurm/job/memory.max", 4 * kGiB);
  write_bytes("sys/fs/cgroup/slurm/job/memory.current", 2 * kGiB);
  write("sys/fs/cgroup/slurm/job/memory.stat", "anon 1\ninactive_file " + std::to_string(kGiB) + "\n");
  write_bytes("sys/fs/cgroup/slurm/memory.max", 64 * kGiB);
  EXPECT_EQ(free(), 3 * kGiB) << "page cache can be taken back";
}

TEST_F(FreeRam, IsWhatTheGroupOfVersionOneLeaves) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:hugetlb,memory:/job\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write_bytes("sys/fs/cgroup/memory/job/memory.limit_in_bytes", 2 * kGiB);
  write_bytes("sys/fs/cgroup/memory/job/memory.usage_in_bytes", kGiB / 2);
  EXPECT_EQ(free(), 3 * kGiB / 2);
}

TEST_F(FreeRam, IsThatOfAContainersOwnRootWhereThePathIsItsHosts) {
  write("proc/self/cgroup", "4:memory:/docker/0123456789\n");
  write_bytes("sys/fs/cgroup/memory/memory.limit_in_bytes", kGiB);
  EXPECT_EQ(free(), kGiB);
}

TEST_F(FreeRam, IsNothingWhereTheGroupIsFull) {
  write("proc/self/cgroup", "0::/job\n");
  write_bytes("sys/fs/cgroup/job/memory.max", kGiB);
  write_bytes("sys/fs/cgroup/job/memory.current", kGiB + 5);
  EXPECT_EQ(free(), 0U);
}

TEST_F(FreeRam, MustBeGivenWhereNothingSaysIt) {
  write("proc/meminfo", "MemTotal: 16777216 kB\n");
  EXPECT_THROW(free(), Error);
}

}  // namespace
}  // namespace shoal
