// The conformance suite: what every device promises, asked of every device.
#include "store/io_device.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "store/device_choice.h"
#include "store/error.h"
#include "store/faulty_device.h"
#include "store/memory_device.h"
#include "store/types.h"
#include "tests/store/block_buffer.h"
#include "tests/store/device_modes.h"
#include "tests/store/refusing_kernel.h"
#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

enum class Kind { kUring, kPosix, kMapped, kMappedOnTmpfs, kMemory, kFaultyMemory, kFaultyUring };

std::string kind_name(const testing::TestParamInfo<Kind>& info) {
  switch (info.param) {
    case Kind::kUring: return "Uring";
    case Kind::kPosix: return "Posix";
    case Kind::kMapped: return "Mapped";
    case Kind::kMappedOnTmpfs: return "MappedOnTmpfs";
    case Kind::kMemory: return "Memory";
    case Kind::kFaultyMemory: return "FaultyMemory";
    case Kind::kFaultyUring: return "FaultyUring";
  }
  return "?";
}

constexpr std::size_t kBlock = kBlockBytes;
constexpr std::uint64_t kTooMuchForShm = std::uint64_t{1} << 39;
constexpr std::byte kA{0xa5};
constexpr std::byte kB{0x5b};

class IoDeviceTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (uses_uring()) {
      try {
        make_uring_device({});
      } catch (const Error& error) {
        GTEST_SKIP() << "NOT TESTED: this kernel refuses io_uring: " << error.what();
      }
    }
    if (GetParam() == Kind::kMappedOnTmpfs && !std::filesystem::exists("/dev/shm")) {
      GTEST_SKIP() << "NOT TESTED: there is no /dev/shm";
    }
    directory_.emplace(GetParam() == Kind::kMappedOnTmpfs ? "/dev/shm" : std::filesystem::temp_directory_path());
  }

  bool uses_uring() const { return GetParam() == Kind::kUring || GetParam() == Kind::kFaultyUring; }
  bool has_files() const { return GetParam() != Kind::kMemory && GetParam() != Kind::kFaultyMemory; }
  bool is_mapped() const { return GetParam() == Kind::kMapped || GetParam() == Kind::kMappedOnTmpfs; }

  std::unique_ptr<IoDevice> make(DeviceOptions options = {}) {
    switch (GetParam()) {
      case Kind::kUring: return make_uring_device(options);
      case Kind::kPosix: return make_posix_device(options);
      case Kind::kMapped:
      case Kind::kMappedOnTmpfs: return make_mapped_device(options);
      case Kind::kMemory: return make_memory_device(memory_, options);
      default: break;
    }
    ++options.depth;  // the faulty device keeps one for itself
    auto script = std::make_shared<FaultScript>();
    if (GetParam() == Kind::kFaultyMemory) return make_faulty_device(make_memory_device(memory_, options), script);
    script->delay_completions(7);
    return make_faulty_device(make_uring_device(options), script);
  }

  std::filesystem::path file(std::string_view name = "slab") const { return directory_->path() / name; }

  static std::vector<IoCompletion> wait_for(IoDevice& device, std::size_t count, WaitMode mode = WaitMode::kBlock) {
    std::vector<IoCompletion> done;
    while (done.size() < count) device.wait(mode, done);
    return done;
  }

  static std::int64_t run(IoDevice& device, IoRequest request) {
    device.submit({&request, 1});
    return wait_for(device, 1).at(0).result;
  }

  static void write(IoDevice& device, FileId id, std::uint64_t offset, std::span<std::byte> data) {
    const auto length = static_cast<std::uint32_t>(data.size());
    ASSERT_EQ(run(device, {IoRequest::Op::kWrite, id, offset, data.data(), length, 1}), length);
  }

  static void expect_read(IoDevice& device, FileId id, std::uint64_t offset, std::size_t length, std::byte value) {
    BlockBuffer buffer(length, ~value);
    const IoRequest request{IoRequest::Op::kRead, id, offset, buffer.data(), static_cast<std::uint32_t>(length), 1};
    ASSERT_EQ(run(device, request), static_cast<std::int64_t>(length));
    EXPECT_EQ(std::ranges::count(buffer.span(), value), static_cast<std::int64_t>(length)) << "at offset " << offset;
  }

  std::uint64_t allocated_bytes() const {
    struct ::stat status {};
    SHOAL_CHECK(::stat(file().c_str(), &status) == 0);
    return static_cast<std::uint64_t>(status.st_blocks) * 512;
  }

  std::shared_ptr<MemoryFiles> memory_ = std::make_shared<MemoryFiles>();
  std::optional<TemporaryDirectory> directory_;
};

// For what only some devices have to promise.
class FileDeviceTest : public IoDeviceTest {};
class MappedDeviceTest : public IoDeviceTest {};
class DirectDeviceTest : public IoDeviceTest {};

// Random reads and writes of two files, as many in flight as the device takes, against a copy in memory. Requests that
// are in flight together do not overlap: no device promises an order.
TEST_P(IoDeviceTest, ReadsBackWhatWasWrittenWithManyInFlight) {
  constexpr std::size_t kFileBytes = 256 * kBlock;
  constexpr std::size_t kLongest = 24 * kBlock;
  constexpr unsigned kDepth = 12;
  constexpr int kOperations = 1500;

  // Half of the requests point into registered memory, half do not.
  BlockBuffer buffers(2 * kDepth * kLongest);
  auto device = make({.depth = kDepth, .buffers = buffers.span().first(kDepth * kLongest)});
  ASSERT_EQ(device->depth(), kDepth);
  std::vector<std::byte> model[2];
  for (FileId id = 0; id < 2; ++id) {
    ASSERT_EQ(device->open(file(std::to_string(id)), OpenMode::kCreate), id);
    device->resize(id, kFileBytes);
    model[id].resize(kFileBytes);
  }

  std::mt19937_64 random(42);
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  std::vector<std::optional<IoRequest>> in_flight(2 * kDepth);  // by place in `buffers`, which is also the tag
  std::size_t flying = 0;
  int begun = 0;
  std::vector<IoRequest> batch;
  std::vector<IoCompletion> done;
  while (begun < kOperations || flying > 0) {
    batch.clear();
    while (begun < kOperations && flying < kDepth && below(4) != 0) {
      std::size_t place = below(in_flight.size());
      while (in_flight[place]) place = (place + 1) % in_flight.size();
      const std::size_t length = (1 + below(kLongest / kBlock)) * kBlock;
      const IoRequest request{below(2) == 0 ? IoRequest::Op::kRead : IoRequest::Op::kWrite,
                              static_cast<FileId>(below(2)),
                              below((kFileBytes - length) / kBlock + 1) * kBlock,
                              buffers.data() + place * kLongest,
                              static_cast<std::uint32_t>(length),
                              place};
      const bool overlaps = std::ranges::any_of(in_flight, [&](const auto& other) {
        return other && other->file == request.file && other->offset < request.offset + length &&
               request.offset < other->offset + other->length;
      });
      if (overlaps) continue;
      for (std::size_t i = 0; i < length; i += 8) {
        const std::uint64_t noise = random();
        std::memcpy(request.data + i, &noise, 8);
      }
      if (request.op == IoRequest::Op::kWrite) {
        std::memcpy(model[request.file].data() + request.offset, request.data, length);
      }
      in_flight[place] = request;
      batch.push_back(request);
      ++begun;
      ++flying;
    }
    device->submit(batch);
    done.clear();
    device->wait(flying == 0 || below(3) == 0 ? WaitMode::kPoll : WaitMode::kBlock, done);
    for (const IoCompletion& completion : done) {
      ASSERT_TRUE(in_flight.at(completion.tag));
      const IoRequest request = *std::exchange(in_flight[completion.tag], std::nullopt);
      --flying;
      ASSERT_EQ(completion.result, request.length);
      ASSERT_EQ(std::memcmp(request.data, model[request.file].data() + request.offset, request.length), 0)
          << (request.op == IoRequest::Op::kRead ? "read" : "write") << " at offset " << request.offset;
    }
  }
}

TEST_P(IoDeviceTest, TakesDepthRequestsAtOnceAndCompletesEachOnce) {
  auto device = make({.depth = 16});
  const FileId id = device->open(file(), OpenMode::kCreate);
  device->resize(id, 16 * kBlock);
  BlockBuffer buffer(16 * kBlock, kA);
  for (int round = 0; round < 3; ++round) {
    for (const WaitMode mode : {WaitMode::kBlock, WaitMode::kPoll}) {
      std::vector<IoRequest> requests;
      for (std::size_t i = 0; i < 16; ++i) {
        requests.push_back({IoRequest::Op::kWrite, id, i * kBlock, buffer.data() + i * kBlock, kBlock, 100 + i});
      }
      device->submit(requests);
      std::vector<std::uint64_t> tags;
      // With kPoll alone completions must be seen too, though the kernel may have deferred them.
      for (const IoCompletion& completion : wait_for(*device, 16, mode)) tags.push_back(completion.tag);
      std::ranges::sort(tags);
      for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(tags.at(i), 100 + i);
    }
  }
  expect_read(*device, id, 0, 16 * kBlock, kA);
}

// What a device may move with one request: neighbours in the file, anywhere in memory.
TEST_P(IoDeviceTest, CompletesEachOfManyNeighboursHandedOverTogether) {
  constexpr std::size_t kPieces = 12;
  BlockBuffer buffers(kPieces * 3 * kBlock);
  auto device = make({.depth = kPieces, .buffers = buffers.span()});
  const FileId id = device->open(file(), OpenMode::kCreate);
  device->resize(id, kPieces * 3 * kBlock);
  std::mt19937 random(1);
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::vector<std::size_t> places(kPieces);
    for (std::size_t i = 0; i < kPieces; ++i) places[i] = i;
    for (const auto op : {IoRequest::Op::kWrite, IoRequest::Op::kRead}) {
      std::ranges::shuffle(places, random);
      std::vector<IoRequest> requests;
      std::uint64_t offset = 0;
      for (std::size_t i = 0; i < kPieces; ++i) {
        std::byte* const data = buffers.data() + places[i] * 3 * kBlock;
        const std::size_t length = (1 + i % 3) * kBlock;
        const auto value = static_cast<std::byte>(repeat + 20 * static_cast<int>(i));
        std::memset(data, static_cast<int>(op == IoRequest::Op::kWrite ? value : ~value), length);
        requests.push_back({op, id, offset, data, static_cast<std::uint32_t>(length), 100 + i});
        offset += length + (i == 7 ? kBlock : 0);  // one gap
      }
      device->submit(requests);
      std::vector<IoCompletion> done = wait_for(*device, kPieces);
      std::ranges::sort(done, {}, &IoCompletion::tag);
      for (std::size_t i = 0; i < kPieces; ++i) {
        EXPECT_EQ(done[i].tag, 100 + i);
        EXPECT_EQ(done[i].result, requests[i].length);
        const auto value = static_cast<std::byte>(repeat + 20 * static_cast<int>(i));
        EXPECT_EQ(std::ranges::count(std::span(requests[i].data, requests[i].length), value), requests[i].length);
      }
    }
  }
}

TEST_P(IoDeviceTest, PollReturnsAtOnceWithNothingToTell) {
  auto device = make();
  std::vector<IoCompletion> done;
  device->wait(WaitMode::kPoll, done);
  EXPECT_TRUE(done.empty());
}

TEST_P(IoDeviceTest, GrowsWithZerosAndKeepsWhatWasThere) {
  auto device = make();
  const FileId id = device->open(file(), OpenMode::kCreate);
  EXPECT_EQ(device->size(id), 0u);
  BlockBuffer buffer(4 * kBlock, kA);
  for (std::uint64_t blocks = 4; blocks <= 256; blocks *= 2) {
    device->resize(id, blocks * kBlock);
    EXPECT_EQ(device->size(id), blocks * kBlock);
    if (has_files()) {
      EXPECT_GE(allocated_bytes(), blocks * kBlock) << "a full disk must show in resize()";
    }
    expect_read(*device, id, (blocks - 2) * kBlock, 2 * kBlock, std::byte{0});
    write(*device, id, (blocks - 4) * kBlock, buffer.span());
  }
  for (std::uint64_t blocks = 4; blocks <= 256; blocks *= 2) {
    expect_read(*device, id, (blocks - 4) * kBlock, 4 * kBlock, kA);
  }
  device->resize(id, 6 * kBlock);
  device->resize(id, 8 * kBlock);
  expect_read(*device, id, 4 * kBlock, 2 * kBlock, kA);
  expect_read(*device, id, 6 * kBlock, 2 * kBlock, std::byte{0});
}

TEST_P(IoDeviceTest, PunchedRangeReadsAsZerosAndItsBlocksGoBack) {
  auto device = make();
  const FileId id = device->open(file(), OpenMode::kCreate);
  device->resize(id, 64 * kBlock);
  BlockBuffer buffer(64 * kBlock, kA);
  write(*device, id, 0, buffer.span());
  device->sync(id);
  const std::uint64_t before = has_files() ? allocated_bytes() : 0;

  device->punch(id, 16 * kBlock, 32 * kBlock);
  EXPECT_EQ(device->size(id), 64 * kBlock);
  if (has_files()) {
    EXPECT_LE(allocated_bytes() + 32 * kBlock, before);
  }
  expect_read(*device, id, 0, 16 * kBlock, kA);
  expect_read(*device, id, 16 * kBlock, 32 * kBlock, std::byte{0});
  expect_read(*device, id, 48 * kBlock, 16 * kBlock, kA);

  device->allocate(id, 16 * kBlock, 8 * kBlock);
  EXPECT_EQ(device->size(id), 64 * kBlock);
  if (has_files()) {
    EXPECT_GE(allocated_bytes(), 40 * kBlock);
  }
  expect_read(*device, id, 16 * kBlock, 8 * kBlock, std::byte{0});
  buffer.fill(kB);
  write(*device, id, 16 * kBlock, buffer.span().first(8 * kBlock));
  expect_read(*device, id, 16 * kBlock, 8 * kBlock, kB);
  expect_read(*device, id, 24 * kBlock, 24 * kBlock, std::byte{0});
}

TEST_P(IoDeviceTest, ContentsSurviveReopening) {
  BlockBuffer buffer(8 * kBlock, kA);
  {
    auto device = make();
    const FileId id = device->open(file(), OpenMode::kCreate);
    device->resize(id, 16 * kBlock);
    write(*device, id, 4 * kBlock, buffer.span());
    device->sync(id);
  }
  {
    auto device = make();
    device->open(file("other"), OpenMode::kCreate);
    const FileId id = device->open(file(), OpenMode::kExisting);
    EXPECT_EQ(device->path(id), file());
    EXPECT_EQ(device->size(id), 16 * kBlock);
    expect_read(*device, id, 4 * kBlock, 8 * kBlock, kA);
  }
  auto device = make();
  EXPECT_EQ(device->size(device->open(file(), OpenMode::kCreate)), 0u) << "kCreate truncates";
}

TEST_P(IoDeviceTest, MissingFileIsAnErrorThatNamesIt) {
  auto device = make();
  try {
    device->open(file("missing"), OpenMode::kExisting);
    FAIL() << "opened a file that is not there";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(file("missing").string()), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("No such file"), std::string::npos) << error.what();
  }
  // And the device is as good as before.
  const FileId id = device->open(file(), OpenMode::kCreate);
  device->resize(id, kBlock);
  expect_read(*device, id, 0, kBlock, std::byte{0});
}

TEST_P(IoDeviceTest, RequestOutsideTheFileCompletesWithAnError) {
  auto device = make();
  const FileId id = device->open(file(), OpenMode::kCreate);
  device->resize(id, 4 * kBlock);
  BlockBuffer buffer(2 * kBlock, kA);
  constexpr std::uint64_t kFarOut = ~std::uint64_t{0} / kBlock * kBlock;
  for (const std::uint64_t offset :
       {3 * std::uint64_t{kBlock}, 4 * std::uint64_t{kBlock}, std::uint64_t{1} << 40, kFarOut}) {
    EXPECT_EQ(run(*device, {IoRequest::Op::kRead, id, offset, buffer.data(), 2 * kBlock, 1}), -ENODATA);
    EXPECT_EQ(run(*device, {IoRequest::Op::kWrite, id, offset, buffer.data(), 2 * kBlock, 1}), -EFBIG);
  }
  EXPECT_EQ(device->size(id), 4 * kBlock);
  expect_read(*device, id, 0, 4 * kBlock, std::byte{0});
}

TEST_P(IoDeviceTest, WakeReturnsABlockedWait) {
  auto device = make();
  std::atomic<int> said = 0;
  std::atomic<int> heard = 0;
  // First one by one, so that the owner falls asleep in between; then in a burst, in which it may see several wakes as
  // one but must not sleep through the last.
  constexpr int kSingle = 300;
  constexpr int kBurst = 3000;
  std::thread other([&] {
    for (int i = 1; i <= kSingle + kBurst; ++i) {
      said.store(i, std::memory_order_relaxed);
      device->wake();
      while (i <= kSingle && heard != i) std::this_thread::yield();
    }
  });
  std::vector<IoCompletion> done;
  while (heard < kSingle + kBurst) {
    device->wait(WaitMode::kBlock, done);
    heard = said.load(std::memory_order_relaxed);
  }
  other.join();
  EXPECT_TRUE(done.empty());
}

TEST_P(IoDeviceTest, WakeAndCompletionsDoNotHideEachOther) {
  auto device = make({.depth = 4});
  const FileId id = device->open(file(), OpenMode::kCreate);
  device->resize(id, 4 * kBlock);
  BlockBuffer buffer(kBlock, kA);
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) device->wake();
  });
  for (std::uint64_t i = 0; i < 300; ++i) {
    EXPECT_EQ(run(*device, {IoRequest::Op::kWrite, id, i % 4 * kBlock, buffer.data(), kBlock, i}), kBlock);
  }
  stop = true;
  other.join();
}

TEST_P(IoDeviceTest, WakeBeforeTheWaitIsNotLostNorUsedUpByAPoll) {
  auto device = make();
  std::vector<IoCompletion> done;
  device->wake();
  device->wait(WaitMode::kBlock, done);
  device->wake();
  device->wake();
  device->wait(WaitMode::kPoll, done);
  device->wait(WaitMode::kBlock, done);
  EXPECT_TRUE(done.empty());
}

TEST_P(IoDeviceTest, MayBeMadeByOneThreadAndOwnedByAnother) {
  BlockBuffer buffer(kBlock, kA);
  auto device = make({.depth = 4, .buffers = buffer.span()});
  const FileId first = device->open(file("first"), OpenMode::kCreate);
  device->resize(first, kBlock);
  std::thread owner([&] {
    const FileId second = device->open(file("second"), OpenMode::kCreate);
    device->resize(second, kBlock);
    write(*device, first, 0, buffer.span());
    write(*device, second, 0, buffer.span());
    expect_read(*device, first, 0, kBlock, kA);
    expect_read(*device, second, 0, kBlock, kA);
  });
  owner.join();
  device.reset();
}

TEST_P(IoDeviceTest, MayGoAwayWithRequestsInFlight) {
  for (int i = 0; i < 20; ++i) {
    auto buffer = std::make_unique<BlockBuffer>(16 * kBlock, kA);
    auto device = make({.depth = 16, .buffers = buffer->span()});
    const FileId id = device->open(file(), OpenMode::kCreate);
    device->resize(id, 16 * kBlock);
    for (std::size_t k = 0; k < 16; ++k) {
      const auto op = k % 2 == 0 ? IoRequest::Op::kRead : IoRequest::Op::kWrite;
      const IoRequest request{op, id, k * kBlock, buffer->data() + k * kBlock, kBlock, k};
      device->submit({&request, 1});
    }
    device.reset();
    buffer.reset();  // nobody may touch it any more
  }
}

TEST_P(FileDeviceTest, FileThatCannotGrowStaysAsItWas) {
  auto device = make({.map_reserve_bytes = kTooMuchForShm});
  const FileId id = device->open(file(), OpenMode::kCreate);
  device->resize(id, 4 * kBlock);
  BlockBuffer buffer(4 * kBlock, kA);
  write(*device, id, 0, buffer.span());
  // More than /dev/shm has, and more than a file of ext4 or xfs may have: both are refused before a block is taken.
  const bool tmpfs = GetParam() == Kind::kMappedOnTmpfs;
  const std::uint64_t too_much = tmpfs ? kTooMuchForShm : std::uint64_t{1} << 62;
  try {
    device->resize(id, too_much);
    FAIL() << "grew to " << too_much;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(file().string()), std::string::npos) << error.what();
    if (tmpfs) {
      EXPECT_NE(std::string(error.what()).find("No space left on device"), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(device->size(id), 4 * kBlock);
  EXPECT_EQ(std::filesystem::file_size(file()), 4 * kBlock);
  expect_read(*device, id, 0, 4 * kBlock, kA);
}

TEST_P(IoDeviceTest, RecordsAreUsedInPlaceWhereTheDeviceAllowsIt) {
  auto device = make({.depth = 4, .map_reserve_bytes = 64 * kBlock});
  const FileId id = device->open(file(), OpenMode::kCreate);
  device->resize(id, 8 * kBlock);
  std::byte* place = device->in_place(id, 2 * kBlock);
  ASSERT_EQ(place != nullptr, is_mapped());
  if (place == nullptr) return;

  std::memset(place, static_cast<int>(kA), 4 * kBlock);
  EXPECT_EQ(run(*device, {IoRequest::Op::kWrite, id, 2 * kBlock, place, 4 * kBlock, 1}), 4 * kBlock);
  expect_read(*device, id, 2 * kBlock, 4 * kBlock, kA);
  BlockBuffer buffer(kBlock, kB);
  write(*device, id, 3 * kBlock, buffer.span());
  EXPECT_EQ(run(*device, {IoRequest::Op::kRead, id, 2 * kBlock, place, 4 * kBlock, 1}), 4 * kBlock);
  EXPECT_EQ(place[0], kA);
  EXPECT_EQ(place[kBlock], kB);

  // The address stays when the file grows, and serves what is new.
  device->resize(id, 64 * kBlock);
  EXPECT_EQ(device->in_place(id, 2 * kBlock), place);
  std::memset(device->in_place(id, 63 * kBlock), static_cast<int>(kB), kBlock);
  device->sync(id);
  expect_read(*device, id, 63 * kBlock, kBlock, kB);
}

TEST_P(MappedDeviceTest, FileBeyondTheReserveIsRefused) {
  auto device = make({.map_reserve_bytes = 8 * kBlock});
  const FileId id = device->open(file(), OpenMode::kCreate);
  device->resize(id, 8 * kBlock);
  EXPECT_THROW(device->resize(id, 9 * kBlock), Error);
  EXPECT_EQ(device->size(id), 8 * kBlock);
  EXPECT_THROW(make({.map_reserve_bytes = 4 * kBlock})->open(file(), OpenMode::kExisting), Error);
}

TEST_P(MappedDeviceTest, PagesDoneWithNoLongerCountAsOurs) {
  // Resident pages of files and shared memory.
  const auto shared_pages = [] {
    std::size_t total = 0, resident = 0, shared = 0;
    std::ifstream("/proc/self/statm") >> total >> resident >> shared;
    return shared;
  };
  constexpr std::uint32_t kPages = 4096;
  auto device = make();
  const FileId id = device->open(file(), OpenMode::kCreate);
  device->resize(id, kPages * kBlock);
  std::byte* place = device->in_place(id, 0);
  std::memset(place, static_cast<int>(kA), kPages * kBlock);
  const std::size_t touched = shared_pages();
  EXPECT_EQ(run(*device, {IoRequest::Op::kWrite, id, 0, place, kPages * kBlock, 1}), kPages * kBlock);
  EXPECT_LT(shared_pages() + kPages / 2, touched);
  expect_read(*device, id, 0, kPages * kBlock, kA);
}

TEST_P(DirectDeviceTest, WorksOnThroughThePageCacheWhereODirectIsRefusedAndSaysSo) {
  with_refusing_kernel(Refused::kDirectOpen, [&] {
    auto device = make();
    EXPECT_FALSE(mode_of(*device, "O_DIRECT").degraded());
    const FileId id = device->open(file(), OpenMode::kCreate);
    EXPECT_TRUE(mode_of(*device, "O_DIRECT").degraded());
    EXPECT_NE(mode_of(*device, "O_DIRECT").reason.find("Invalid argument"), std::string::npos);
    device->resize(id, 4 * kBlock);
    BlockBuffer buffer(4 * kBlock, kA);
    write(*device, id, 0, buffer.span());
    expect_read(*device, id, 0, 4 * kBlock, kA);
  });
}

INSTANTIATE_TEST_SUITE_P(All, IoDeviceTest,
                         testing::Values(Kind::kUring, Kind::kPosix, Kind::kMapped, Kind::kMappedOnTmpfs, Kind::kMemory,
                                         Kind::kFaultyMemory, Kind::kFaultyUring),
                         kind_name);
INSTANTIATE_TEST_SUITE_P(All, FileDeviceTest,
                         testing::Values(Kind::kUring, Kind::kPosix, Kind::kMapped, Kind::kMappedOnTmpfs), kind_name);
INSTANTIATE_TEST_SUITE_P(All, MappedDeviceTest, testing::Values(Kind::kMapped, Kind::kMappedOnTmpfs), kind_name);
INSTANTIATE_TEST_SUITE_P(All, DirectDeviceTest, testing::Values(Kind::kUring, Kind::kPosix), kind_name);

}  // namespace
}  // namespace shoal
