#include "store/device_choice.h"

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "store/error.h"
#include "tests/store/refusing_kernel.h"
#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

constexpr IoEngine kEveryEngine[] = {IoEngine::kAuto, IoEngine::kDirect, IoEngine::kPosix, IoEngine::kMapped};

bool kernel_has_io_uring() {
  try {
    make_uring_device({});
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool on_tmpfs(const std::filesystem::path& directory) {
  struct ::statfs status {};
  return ::statfs(directory.c_str(), &status) == 0 && status.f_type == TMPFS_MAGIC;
}

void expect_choice(const DeviceChoice& choice, std::string_view requested, std::string_view actual) {
  ASSERT_NE(choice.device, nullptr);
  EXPECT_EQ(choice.device->name(), actual);
  EXPECT_EQ(choice.report.what, "slab I/O");
  EXPECT_EQ(choice.report.requested, requested);
  EXPECT_EQ(choice.report.actual, actual);
  if (choice.report.degraded()) {
    EXPECT_FALSE(choice.report.reason.empty());
  }
}

TEST(DeviceChoice, ReadsTheUsersWords) {
  for (const IoEngine engine : kEveryEngine) EXPECT_EQ(parse_io_engine(name(engine)), engine);
  try {
    parse_io_engine("uring");
    FAIL() << "took a word that is none";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("auto, direct, posix, mapped"), std::string::npos) << error.what();
  }
}

TEST(DeviceChoice, GivesWhatWasAskedFor) {
  if (!kernel_has_io_uring()) GTEST_SKIP() << "NOT TESTED: this kernel refuses io_uring";
  const TemporaryDirectory directory;
  expect_choice(choose_device(IoEngine::kDirect, directory.path(), {}), "io_uring", "io_uring");
  expect_choice(choose_device(IoEngine::kPosix, directory.path(), {}), "posix", "posix");
  expect_choice(choose_device(IoEngine::kMapped, directory.path(), {}), "mapped", "mapped");
  if (on_tmpfs(directory.path())) GTEST_SKIP() << "NOT TESTED: auto on a disk, because temporary files are on tmpfs";
  expect_choice(choose_device(IoEngine::kAuto, directory.path(), {}), "io_uring", "io_uring");
}

TEST(DeviceChoice, AutoMapsFilesThatAreMemoryAlready) {
  if (!on_tmpfs("/dev/shm")) GTEST_SKIP() << "NOT TESTED: /dev/shm is no tmpfs";
  const TemporaryDirectory directory("/dev/shm");
  const DeviceChoice choice = choose_device(IoEngine::kAuto, directory.path(), {});
  expect_choice(choice, "mapped", "mapped");
  EXPECT_NE(choice.report.reason.find("tmpfs"), std::string::npos);
}

TEST(DeviceChoice, FallsBackToPosixWithoutIoUringAndSaysWhy) {
  const TemporaryDirectory directory;
  with_refusing_kernel(Refused::kIoUring, [&] {
    for (const IoEngine engine : {IoEngine::kAuto, IoEngine::kDirect}) {
      if (engine == IoEngine::kAuto && on_tmpfs(directory.path())) continue;
      const DeviceChoice choice = choose_device(engine, directory.path(), {});
      expect_choice(choice, "io_uring", "posix");
      EXPECT_EQ(choice.report.reason, "io_uring_queue_init: Operation not permitted (errno 1)");
    }
  });
}

TEST(DeviceChoice, AutoMapsWhereODirectIsRefusedAndSaysWhy) {
  const TemporaryDirectory directory;
  if (on_tmpfs(directory.path())) GTEST_SKIP() << "NOT TESTED: temporary files are on tmpfs";
  with_refusing_kernel(Refused::kDirectOpen, [&] {
    const DeviceChoice choice = choose_device(IoEngine::kAuto, directory.path(), {});
    expect_choice(choice, "io_uring", "mapped");
    EXPECT_NE(choice.report.reason.find("O_DIRECT"), std::string::npos) << choice.report.reason;
    EXPECT_NE(choice.report.reason.find("Invalid argument"), std::string::npos) << choice.report.reason;
  });
}

TEST(DeviceChoice, LeavesNoFileBehind) {
  const TemporaryDirectory directory;
  const auto try_all = [&] {
    for (const IoEngine engine : kEveryEngine) choose_device(engine, directory.path(), {});
  };
  try_all();
  with_refusing_kernel(Refused::kDirectOpen, try_all);
  with_refusing_kernel(Refused::kIoUring, try_all);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(DeviceChoice, NamesADirectoryThatIsNotThere) {
  const TemporaryDirectory directory;
  try {
    choose_device(IoEngine::kAuto, directory.path() / "missing", {});
    FAIL() << "chose a device for nothing";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find((directory.path() / "missing").string()), std::string::npos);
  }
}

}  // namespace
}  // namespace shoal
