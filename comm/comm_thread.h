// The one thread that makes MPI calls, and joins MPI and leaves it.
//
// Others hand it tasks, which it polls until they are done, and services, which it polls for as long as they are there.
// It naps when nothing moves. Failures of other ranks come to it, and on rank 0 it ends the run for them.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace shoal {

struct RankPlace;

// Something that is polled on the communication thread for as long as it is there.
class CommService {
 public:
  virtual ~CommService() = default;
  virtual bool poll() = 0;             // whether anything moved
  virtual bool expecting() const = 0;  // something is under way: poll again soon
};

class CommThread {
 public:
  explicit CommThread(RankPlace& place);  // MPI_Init; finds out the place
  ~CommThread();                          // MPI_Finalize
  CommThread(const CommThread&) = delete;
  CommThread& operator=(const CommThread&) = delete;

  // Any thread. run() returns true when `poll` has, and false when that took longer than `patience`; 0: never too long.
  enum class Looks { kWithNaps, kSteady };
  bool run(std::function<bool()> poll, std::chrono::seconds patience = std::chrono::seconds(0),
           Looks looks = Looks::kWithNaps);
  void kick();  // there is something to poll

  // What follows is for the communication thread itself.
  std::vector<CommService*> services;
  MPI_Comm world = MPI_COMM_NULL;
  std::function<void(const std::string&)> on_failure;
  // Rank 0: says what `from` has to say, tells the others, for their logs, and ends all of them. `said` begins with the
  // exit code.
  void end_all(std::string_view said, int from);

  static constexpr int kFailureTag = 1;
  // mpirun passes on what a rank has printed a little later, and drops it when the rank is gone.
  static constexpr std::chrono::milliseconds kForLauncher{200};

 private:
  struct Task {
    std::function<bool()> poll;
    Looks looks = Looks::kWithNaps;
    std::exception_ptr error;
    bool done = false;
  };

  void work();
  void start();
  void loop();
  bool advance(Task& task);
  void listen();
  void hear();

  RankPlace& place_;
  MPI_Request listening_ = MPI_REQUEST_NULL;
  std::array<char, 2048> heard_{};
  std::atomic<bool> kicked_{false};
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Task>> new_tasks_;
  std::exception_ptr error_;
  bool joined_ = false;
  bool woken_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace shoal
