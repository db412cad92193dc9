#include "store/store_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "store/error.h"
#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Another process, which does one thing, says so, and sits there until it is killed.
class OtherProcess {
 public:
  explicit OtherProcess(const std::function<bool()>& work) {
    int pipe_ends[2];
    SHOAL_CHECK(::pipe(pipe_ends) == 0);
    pid_ = ::fork();
    SHOAL_CHECK(pid_ >= 0);
    if (pid_ == 0) {
      const char done = work() ? 'y' : 'n';
      if (::write(pipe_ends[1], &done, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    ::close(pipe_ends[1]);
    char done = 0;
    const ssize_t length = ::read(pipe_ends[0], &done, 1);
    ::close(pipe_ends[0]);
    succeeded_ = length == 1 && done == 'y';
  }
  ~OtherProcess() { kill(); }

  pid_t pid() const { return pid_; }
  bool succeeded() const { return succeeded_; }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
  bool succeeded_ = false;
};

class StoreLockTest : public testing::Test {
 protected:
  bool can_lock() const {
    try {
      const StoreLock lock(directory_.path());
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  TemporaryDirectory directory_{fast_directory()};
};

TEST_F(StoreLockTest, IsNotGivenTwiceInOneProcess) {
  const StoreLock lock(directory_.path());
  EXPECT_THAT([this] { StoreLock second(directory_.path()); },
              ThrowsMessage<Error>(AllOf(HasSubstr(directory_.path().string()),
                                         HasSubstr("in use by process " + std::to_string(::getpid()) + ";"))));
}

TEST_F(StoreLockTest, IsFreeAgainWhenItsHolderIsGone) {
  { const StoreLock lock(directory_.path()); }
  EXPECT_TRUE(can_lock());
}

TEST_F(StoreLockTest, IsNotGivenToAnotherProcessWhileItIsHeld) {
  const StoreLock lock(directory_.path());
  const OtherProcess other([this] { return can_lock(); });
  EXPECT_FALSE(other.succeeded());
}

TEST_F(StoreLockTest, NamesTheProcessThatHoldsItAndIsFreeOnceThatIsKilled) {
  std::unique_ptr<StoreLock> held_by_other;
  OtherProcess other([&] {
    held_by_other = std::make_unique<StoreLock>(directory_.path());
    return true;
  });
  ASSERT_TRUE(other.succeeded());
  ASSERT_EQ(held_by_other, nullptr) << "that is the other process's variable";
  EXPECT_THAT([this] { StoreLock lock(directory_.path()); },
              ThrowsMessage<Error>(HasSubstr("in use by process " + std::to_string(other.pid()) + ";")));
  other.kill();
  EXPECT_TRUE(can_lock());
}

TEST_F(StoreLockTest, NamesItsHolderEvenAfterOneWithALongerProcessId) {
  std::ofstream(directory_.path() / "lock") << "4194304999";
  const StoreLock lock(directory_.path());
  EXPECT_THAT([this] { StoreLock second(directory_.path()); },
              ThrowsMessage<Error>(HasSubstr("process " + std::to_string(::getpid()) + ";")));
}

TEST_F(StoreLockTest, IsSharedByReadersWhoKeepRunsOutAndLeaveTheFileAlone) {
  { const StoreLock run(directory_.path()); }
  const auto written = std::filesystem::last_write_time(directory_.path() / "lock");
  {
    const StoreLock reader(directory_.path(), LockKind::kReader);
    const StoreLock another(directory_.path(), LockKind::kReader);
    EXPECT_THAT([this] { StoreLock run(directory_.path()); },
                ThrowsMessage<Error>(AllOf(HasSubstr(directory_.path().string()), HasSubstr("being read"))));
  }
  EXPECT_EQ(std::filesystem::last_write_time(directory_.path() / "lock"), written);
  const StoreLock run(directory_.path());
  EXPECT_THAT([this] { StoreLock reader(directory_.path(), LockKind::kReader); },
              ThrowsMessage<Error>(HasSubstr("in use by process " + std::to_string(::getpid()))));
}

TEST_F(StoreLockTest, GoesWithItsFileAndKeepsOthersOutUntilThen) {
  const std::filesystem::path file = directory_.path() / "lock";
  {
    StoreLock lock(directory_.path());
    lock.remove_file();
    EXPECT_FALSE(std::filesystem::exists(file));
  }
  const StoreLock lock(directory_.path());
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_THAT([this] { StoreLock second(directory_.path()); }, ThrowsMessage<Error>(HasSubstr("in use by process")));
}

TEST_F(StoreLockTest, OnAFileThatIsGoneIsTakenAgain) {
  // Two processes lock and delete it over and over: at no time do both hold it.
  const std::filesystem::path witness = directory_.path() / "witness";
  const auto take_turns = [&] {
    for (int turn = 0; turn < 300; ++turn) {
      try {
        StoreLock lock(directory_.path());
        if (!std::filesystem::create_directory(witness)) return false;
        std::filesystem::remove(witness);
        lock.remove_file();
      } catch (const Error&) {
        // The other one has it.
      }
    }
    return true;
  };
  const pid_t child = ::fork();
  SHOAL_CHECK(child >= 0);
  if (child == 0) ::_exit(take_turns() ? 0 : 1);
  EXPECT_TRUE(take_turns());
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(StoreLockTest, NeedsTheDirectory) {
  EXPECT_THAT([] { StoreLock lock("/nonexistent"); },
              ThrowsMessage<Error>(HasSubstr("/nonexistent/lock: No such file or directory")));
}

}  // namespace
}  // namespace shoal
