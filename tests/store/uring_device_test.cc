// What is io_uring's own: registered buffers and files, requests that are joined, refusals.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "store/device_choice.h"
#include "store/error.h"
#include "store/io_device.h"
#include "store/types.h"
#include "tests/store/block_buffer.h"
#include "tests/store/device_modes.h"
#include "tests/store/refusing_kernel.h"
#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

constexpr std::size_t kBlock = kBlockBytes;
constexpr std::byte kA{0xa5};
constexpr std::byte kB{0x5b};

class UringDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      make_uring_device({});
    } catch (const Error& error) {
      GTEST_SKIP() << "NOT TESTED: this kernel refuses io_uring: " << error.what();
    }
  }

  // Writes and reads back `bytes` with one request each.
  void expect_works(IoDevice& device, std::span<std::byte> bytes) {
    const FileId id = device.open(directory_.path() / "slab", OpenMode::kCreate);
    device.resize(id, bytes.size());
    for (const auto op : {IoRequest::Op::kWrite, IoRequest::Op::kRead}) {
      std::ranges::fill(bytes, op == IoRequest::Op::kWrite ? kA : kB);
      const IoRequest request{op, id, 0, bytes.data(), static_cast<std::uint32_t>(bytes.size()), 1};
      device.submit({&request, 1});
      std::vector<IoCompletion> done;
      while (done.empty()) device.wait(WaitMode::kBlock, done);
      ASSERT_EQ(done[0].result, static_cast<std::int64_t>(bytes.size()));
    }
    EXPECT_EQ(std::ranges::count(bytes, kA), static_cast<std::int64_t>(bytes.size()));
  }

  TemporaryDirectory directory_;
};

TEST_F(UringDeviceTest, RequestAcrossTwoRegisteredBuffersWorks) {
  // Buffers are registered in pieces of 512 MiB; the request lies across the first border. So much address space, but
  // little memory: the same 2 MiB again and again.
  constexpr std::size_t kBorder = std::size_t{512} << 20;
  constexpr std::size_t kPiece = std::size_t{2} << 20;
  constexpr std::size_t kBytes = kBorder + kPiece;
  const int fd = ::memfd_create("buffers", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(fd, kPiece), 0);
  void* memory = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::span<std::byte> buffers(static_cast<std::byte*>(memory), kBytes);
  for (std::size_t at = 0; at < kBytes; at += kPiece) {
    ASSERT_NE(::mmap(buffers.data() + at, kPiece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), MAP_FAILED);
  }
  ::close(fd);
  {
    auto device = make_uring_device({.depth = 4, .buffers = buffers});
    expect_works(*device, buffers.subspan(kBorder - 5 * kBlock, 9 * kBlock));
    expect_works(*device, buffers.subspan(kBorder, 9 * kBlock));
  }
  ::munmap(memory, kBytes);
}

TEST_F(UringDeviceTest, SaysOfNeighboursHandedOverTogetherWhichOneFailed) {
  BlockBuffer buffers(4 * kBlock, kB);
  auto device = make_uring_device({.depth = 4, .buffers = buffers.span()});
  const std::filesystem::path path = directory_.path() / "slab";
  const FileId id = device->open(path, OpenMode::kCreate);
  device->resize(id, 4 * kBlock);
  std::filesystem::resize_file(path, 2 * kBlock);  // behind the device's back
  std::vector<IoRequest> requests;
  for (std::uint64_t i = 0; i < 4; ++i) {
    requests.push_back({IoRequest::Op::kRead, id, i * kBlock, buffers.data() + i * kBlock, kBlock, i});
  }
  device->submit(requests);
  std::vector<IoCompletion> done;
  while (done.size() < 4) device->wait(WaitMode::kBlock, done);
  for (const IoCompletion& each : done) EXPECT_EQ(each.result, each.tag < 2 ? std::int64_t{kBlock} : -ENODATA);
}

TEST_F(UringDeviceTest, WorksWithUnregisteredBuffersWhereLockedMemoryIsLimitedAndSaysSo) {
  std::thread([&] {
    // The limit does not bind root until it gives up the capability; that is this thread's own affair.
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct capabilities[2] = {};
    ASSERT_EQ(::syscall(SYS_capset, &header, capabilities), 0);
    ::rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before), 0);
    const ::rlimit low{32 * kBlock, before.rlim_max};  // enough for the ring itself
    ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &low), 0);

    BlockBuffer buffers(64 * kBlock);
    auto device = make_uring_device({.depth = 4, .buffers = buffers.span()});
    const ModeReport mode = mode_of(*device, "registered buffers");
    EXPECT_TRUE(mode.degraded());
    EXPECT_NE(mode.reason.find("ulimit -l"), std::string::npos) << mode.reason;
    expect_works(*device, buffers.span());
    device.reset();
    ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &before), 0);
  }).join();
}

TEST_F(UringDeviceTest, FilesBeyondTheRegisteredTableWork) {
  auto device = make_uring_device({.depth = 4});
  for (int i = 0; i < 70; ++i) device->open(directory_.path() / std::to_string(i), OpenMode::kCreate);
  BlockBuffer buffer(2 * kBlock);
  expect_works(*device, buffer.span());
}

TEST_F(UringDeviceTest, SaysWhenTheKernelRefusesIoUring) {
  with_refusing_kernel(Refused::kIoUring, [] {
    try {
      make_uring_device({});
      FAIL() << "made a ring that was refused";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), "io_uring_queue_init: Operation not permitted (errno 1)");
    }
  });
}

}  // namespace
}  // namespace shoal
