#include "store/faulty_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "store/device_choice.h"
#include "store/error.h"
#include "store/memory_device.h"
#include "store/types.h"
#include "tests/store/block_buffer.h"
#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

constexpr std::size_t kBlock = kBlockBytes;
constexpr std::byte kOld{0x11};
constexpr std::byte kNew{0x77};

// A file of eight blocks, written with kOld and synced: five operations that the script does not see.
class FaultyDeviceTest : public testing::Test {
 protected:
  FaultyDeviceTest() {
    (*memory_)["slab"].assign(8 * kBlock, kOld);
    reopen();
  }

  void reopen() {
    device_.reset();
    device_ = make_faulty_device(make_memory_device(memory_, {}), script_);
    id_ = device_->open("slab", OpenMode::kExisting);
  }

  void submit(IoRequest::Op op, std::uint64_t block, std::size_t blocks, BlockBuffer& buffer, std::uint64_t tag = 1) {
    const auto length = static_cast<std::uint32_t>(blocks * kBlock);
    const IoRequest request{op, id_, block * kBlock, buffer.data(), length, tag};
    device_->submit({&request, 1});
  }

  std::vector<IoCompletion> wait_for(std::size_t count) {
    std::vector<IoCompletion> done;
    while (done.size() < count) device_->wait(WaitMode::kBlock, done);
    return done;
  }

  std::int64_t run(IoRequest::Op op, std::uint64_t block, std::size_t blocks, BlockBuffer& buffer) {
    submit(op, block, blocks, buffer);
    return wait_for(1).at(0).result;
  }

  std::int64_t write(std::uint64_t block, std::size_t blocks, std::byte value = kNew) {
    BlockBuffer buffer(blocks * kBlock, value);
    return run(IoRequest::Op::kWrite, block, blocks, buffer);
  }

  // One letter per block of the file: o(ld), n(ew), 0, or ? for anything else.
  std::string blocks() const {
    std::string letters;
    const MemoryFiles::Bytes& bytes = (*memory_)["slab"];
    for (std::size_t at = 0; at < bytes.size(); at += kBlock) {
      const auto all = [&](std::byte value) { return std::count(&bytes[at], &bytes[at] + kBlock, value) == kBlock; };
      letters += all(kOld) ? 'o' : all(kNew) ? 'n' : all(std::byte{0}) ? '0' : '?';
    }
    return letters;
  }

  std::shared_ptr<MemoryFiles> memory_ = std::make_shared<MemoryFiles>();
  std::shared_ptr<FaultScript> script_ = std::make_shared<FaultScript>();
  std::unique_ptr<IoDevice> device_;
  FileId id_ = 0;
};

TEST_F(FaultyDeviceTest, CountsOperationsByKindInOrderOfSubmission) {
  BlockBuffer buffer(kBlock);
  run(IoRequest::Op::kRead, 0, 1, buffer);
  write(0, 1);
  write(1, 1);
  device_->sync(id_);
  device_->resize(id_, 9 * kBlock);
  device_->punch(id_, 0, kBlock);
  device_->allocate(id_, 0, kBlock);
  EXPECT_EQ(script_->operations(), 7u);
  EXPECT_EQ(script_->operations(DeviceOperation::kRead), 1u);
  EXPECT_EQ(script_->operations(DeviceOperation::kWrite), 2u);
  EXPECT_EQ(script_->operations(DeviceOperation::kSync), 1u);
  EXPECT_EQ(script_->operations(DeviceOperation::kResize), 1u);
  EXPECT_EQ(script_->operations(DeviceOperation::kPunch), 1u);
  EXPECT_EQ(script_->operations(DeviceOperation::kAllocate), 1u);
  EXPECT_EQ(script_->injected(), 0u);
}

TEST_F(FaultyDeviceTest, FailsTheNthOperationAndNoOther) {
  script_->fail(2, Fault::kIoError);
  script_->fail(3, Fault::kNoSpace);
  EXPECT_EQ(write(0, 2), 2 * kBlock);
  EXPECT_EQ(write(2, 2), -EIO);
  EXPECT_EQ(write(4, 2), -ENOSPC);
  EXPECT_EQ(write(6, 2), 2 * kBlock);
  EXPECT_EQ(blocks(), "nnoooonn");
  EXPECT_EQ(script_->injected(), 2u);
}

TEST_F(FaultyDeviceTest, FailsTheNthOfOneKind) {
  script_->fail(2, Fault::kIoError, DeviceOperation::kWrite);
  BlockBuffer buffer(kBlock);
  EXPECT_EQ(write(0, 1), kBlock);
  EXPECT_EQ(run(IoRequest::Op::kRead, 0, 1, buffer), kBlock);
  EXPECT_EQ(write(1, 1), -EIO);
  EXPECT_EQ(run(IoRequest::Op::kRead, 0, 1, buffer), kBlock);
}

TEST_F(FaultyDeviceTest, ShortTransferMovesHalfAndSaysSo) {
  script_->fail(1, Fault::kShort);
  script_->fail(2, Fault::kShort);
  script_->fail(3, Fault::kShort);
  EXPECT_EQ(write(0, 4), 2 * kBlock);
  EXPECT_EQ(blocks(), "nnoooooo");
  BlockBuffer buffer(4 * kBlock, std::byte{0xee});
  EXPECT_EQ(run(IoRequest::Op::kRead, 4, 4, buffer), 2 * kBlock);
  EXPECT_EQ(std::ranges::count(buffer.span(), kOld), 2 * kBlock);
  EXPECT_EQ(run(IoRequest::Op::kRead, 0, 1, buffer), 0) << "half of one block is none";
}

TEST_F(FaultyDeviceTest, TornWriteLeavesHalfAndReportsAnError) {
  script_->fail(1, Fault::kTorn);
  EXPECT_EQ(write(2, 4), -EIO);
  EXPECT_EQ(blocks(), "oonnoooo");
}

TEST_F(FaultyDeviceTest, BlockingOperationsThrowWithPathAndReasonAndDoNothing) {
  const auto message = [](auto&& operation) -> std::string {
    try {
      operation();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  script_->fail(1, Fault::kIoError);
  script_->fail(2, Fault::kNoSpace);
  script_->fail(3, Fault::kTorn);
  script_->fail(4, Fault::kNoSpace);
  EXPECT_EQ(message([&] { device_->sync(id_); }),
            "cannot sync slab (offset 0, length 32768): Input/output error (errno 5)");
  EXPECT_EQ(message([&] {
              device_->resize(id_, 16 * kBlock);
            }).find("cannot resize slab (offset 32768, length 32768): No space left on device (errno 28)"),
            0u);
  EXPECT_EQ(message([&] { device_->punch(id_, kBlock, kBlock); }),
            "cannot punch a hole into slab (offset 4096, length 4096): Input/output error (errno 5)");
  EXPECT_NE(message([&] { device_->allocate(id_, kBlock, kBlock); }).find("No space left"), std::string::npos);
  EXPECT_EQ(blocks(), "oooooooo");
  device_->sync(id_);
}

TEST_F(FaultyDeviceTest, DelaysReorderCompletionsTheSameWayForTheSameSeed) {
  const auto order = [&](std::uint64_t seed) {
    script_ = std::make_shared<FaultScript>();
    script_->delay_completions(seed);
    reopen();
    BlockBuffer buffer(kBlock);
    for (std::uint64_t tag = 0; tag < 8; ++tag) submit(IoRequest::Op::kRead, tag, 1, buffer, tag);
    std::vector<std::uint64_t> tags;
    for (const IoCompletion& completion : wait_for(8)) tags.push_back(completion.tag);
    EXPECT_EQ(tags.size(), 8u);
    return tags;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
  EXPECT_FALSE(std::ranges::is_sorted(order(1)));
}

class PowerCutTest : public FaultyDeviceTest {
 protected:
  PowerCutTest() { script_->keep_undo(); }

  void cut_power(std::optional<std::uint64_t> survivors_seed = std::nullopt) {
    script_->cut_power(survivors_seed);
    device_.reset();
  }
};

TEST_F(PowerCutTest, UndoesWritesSinceTheLastSyncOnly) {
  write(0, 2);
  device_->sync(id_);
  write(1, 2, kOld);
  write(1, 3, std::byte{0x55});
  write(6, 2);
  cut_power();
  EXPECT_EQ(blocks(), "nnoooooo");
}

TEST_F(PowerCutTest, KeepsAFilesOwnSyncApartFromAnothers) {
  (*memory_)["other"].assign(kBlock, kOld);
  const FileId other = device_->open("other", OpenMode::kExisting);
  write(0, 1);
  device_->sync(other);
  cut_power();
  EXPECT_EQ(blocks(), "oooooooo");
}

TEST_F(PowerCutTest, SyncPromisesNothingAboutWritesThatNobodyWaitedFor) {
  BlockBuffer buffer(kBlock, kNew);
  write(0, 1);
  submit(IoRequest::Op::kWrite, 1, 1, buffer);
  device_->sync(id_);
  wait_for(1);
  cut_power();
  EXPECT_EQ(blocks(), "nooooooo");
}

TEST_F(PowerCutTest, UndoesResizesAndHoles) {
  device_->punch(id_, 0, 2 * kBlock);
  device_->resize(id_, 4 * kBlock);
  device_->resize(id_, 12 * kBlock);
  write(3, 6);
  EXPECT_EQ(blocks(), "00onnnnnn000");
  cut_power();
  EXPECT_EQ(blocks(), "oooooooo");
}

TEST_F(PowerCutTest, AFailedSyncSyncsNothing) {
  write(0, 2);
  script_->fail(1, Fault::kIoError, DeviceOperation::kSync);
  EXPECT_THROW(device_->sync(id_), Error);
  cut_power();
  EXPECT_EQ(blocks(), "oooooooo");
}

TEST_F(PowerCutTest, NothingReachesTheDeviceAfterwards) {
  script_->cut_power();
  BlockBuffer buffer(kBlock);
  EXPECT_EQ(run(IoRequest::Op::kRead, 0, 1, buffer), -EIO);
  EXPECT_EQ(write(0, 1), -EIO);
  EXPECT_THROW(device_->sync(id_), Error);
  device_.reset();
  EXPECT_EQ(blocks(), "oooooooo");
}

TEST_F(PowerCutTest, WithASeedSomeBlocksSurviveAndNoneIsAnythingElse) {
  std::string all;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    (*memory_)["slab"].assign(8 * kBlock, kOld);
    script_ = std::make_shared<FaultScript>();
    script_->keep_undo();
    reopen();
    write(0, 8);
    cut_power(seed);
    all += blocks();
  }
  EXPECT_GT(std::ranges::count(all, 'o'), 16);
  EXPECT_GT(std::ranges::count(all, 'n'), 16);
  EXPECT_EQ(std::ranges::count(all, 'o') + std::ranges::count(all, 'n'), 64);
}

TEST_F(PowerCutTest, WorksAroundRealFiles) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "slab";
  script_->delay_completions(3);
  device_ = make_faulty_device(make_posix_device({}), script_);
  id_ = device_->open(path, OpenMode::kCreate);
  device_->resize(id_, 8 * kBlock);
  write(0, 8, kOld);
  device_->sync(id_);
  BlockBuffer buffer(kBlock, kNew);
  for (std::uint64_t block = 0; block < 8; ++block) submit(IoRequest::Op::kWrite, block, 1, buffer, block);
  wait_for(3);
  cut_power();

  device_ = make_posix_device({});
  id_ = device_->open(path, OpenMode::kExisting);
  BlockBuffer found(8 * kBlock);
  EXPECT_EQ(run(IoRequest::Op::kRead, 0, 8, found), 8 * kBlock);
  EXPECT_EQ(std::ranges::count(found.span(), kOld), 8 * kBlock);
}

}  // namespace
}  // namespace shoal
