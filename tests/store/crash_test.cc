// kill -9 at any moment loses nothing that a checkpoint holds, and brings back nothing that it does not.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "store/error.h"
#include "store/manifest.h"
#include "tests/store/crash_scenario.h"

namespace shoal::testing {
namespace {

// SHOAL_CRASH_KILLS=5000 for a long run.
unsigned kill_count() {
  const char* text = std::getenv("SHOAL_CRASH_KILLS");
  return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : 200;
}

// A child that is killed, at the latest when this object goes.
class Child {
 public:
  Child(const std::string& directory, std::uint64_t seed) {
    int ends[2];
    SHOAL_CHECK(::pipe(ends) == 0);
    pid_ = ::fork();
    SHOAL_CHECK(pid_ >= 0);
    if (pid_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      ::close(ends[1]);
      ::execl(SHOAL_CRASH_CHILD, SHOAL_CRASH_CHILD, directory.c_str(), std::to_string(seed).c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    progress_ = ends[0];
  }
  ~Child() {
    kill();
    ::close(progress_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Until it has opened the store (1) and made so many checkpoints, or ended.
  void wait_for(std::uint64_t steps) {
    char dot = 0;
    while (steps > 0 && ::read(progress_, &dot, 1) == 1) --steps;
  }
  // How it ended: by SIGKILL, unless it had failed before.
  int kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, &status_, 0);
    }
    pid_ = 0;
    return status_;
  }

 private:
  pid_t pid_ = 0;
  int progress_ = -1;
  int status_ = 0;
};

TEST(Crash, LeavesExactlyTheLastCheckpoint) {
  const unsigned kills = kill_count();
  constexpr unsigned kStores = 10;
  std::mt19937_64 random(42);
  unsigned done = 0;
  std::uint64_t checkpoints_seen = 0;
  for (unsigned s = 0; s < kStores; ++s) {
    TemporaryDirectory directory;
    const CrashScenario scenario{s + 1};
    const std::filesystem::path path = directory.path() / "store";
    const StoreOptions options = scenario.options(path);
    Model model(scenario.nodes, options.layout);
    std::uint64_t model_round = 0;
    for (; done < kills * (s + 1) / kStores; ++done) {
      Child child(path.string(), scenario.seed);
      // Some while they open or create, most somewhere between or in checkpoints.
      child.wait_for(random() % 4);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 40000));
      const int status = child.kill();
      ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself with " << status;
      if (!Manifest::exists(path)) continue;  // killed while creating: the next child starts over

      auto store = StateStore::open(options);
      const std::uint64_t round = CrashScenario::round_after(store->checkpoint_note());
      ASSERT_GE(round, model_round) << "an acknowledged checkpoint is gone";
      checkpoints_seen += round > model_round ? 1 : 0;
      for (; model_round < round; ++model_round) model.run(*scenario.plan(model_round), model_round);
      ASSERT_NO_THROW(expect_equal(*store, model)) << "store " << s << ", kill " << done << ", round " << round;
      if (done % 8 == 0) {
        ASSERT_THAT(store->verify().problems, ::testing::IsEmpty());
      }
    }
  }
  EXPECT_EQ(done, kills);
  EXPECT_GT(checkpoints_seen, kills / 8) << "the children are killed before they do anything";
}

}  // namespace
}  // namespace shoal::testing
