#include "comm/communicator.h"

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "comm/launch.h"
#include "comm/mpi_error.h"

namespace shoal {
namespace {

using namespace std::chrono_literals;

// How long the thread naps when a look around found nothing: doubled each time, up to the first where something is
// under way, to the second where not.
constexpr auto kShortestNap = 10us;
constexpr auto kLongestNapExpecting = 200us;
constexpr auto kLongestNap = 4000us;
constexpr unsigned kMostLooks = 2000;
// Sums of more numbers than this go through MPI in many small pieces, each of which takes a few looks on both sides:
// without naps a round of ResNet-18 on two ranks takes 2.8 s instead of 5.5.
constexpr std::size_t kManyNumbers = 1 << 14;
// How long a rank that failed waits for rank 0 to end the run before it does so itself; where several have failed, one
// after the other, since the first ends the others: mpirun takes a second or two for it.
constexpr auto kPatience = 5s;
constexpr auto kForThoseBefore = 2500ms;
constexpr unsigned kMostBefore = 3;
// mpirun passes on what a rank has printed a little later, and drops it when the rank is gone.
constexpr auto kForLauncher = 200ms;
constexpr int kFailureTag = 1;

bool launched() {
  const char* const size = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (size != nullptr) return std::atoi(size) > 1;
  return std::getenv("PMIX_RANK") != nullptr || std::getenv("PMI_RANK") != nullptr;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

unsigned sharing(const cpu_set_t& own, const std::vector<cpu_set_t>& ranks) {
  return static_cast<unsigned>(std::count_if(ranks.begin(), ranks.end(), [&](const cpu_set_t& each) {
    cpu_set_t both;
    CPU_AND(&both, &own, &each);
    return CPU_COUNT(&both) > 0;
  }));
}

}  // namespace

void check(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(fmt::format("{}: {}", call, std::string_view(text.data(), static_cast<std::size_t>(length))));
}

class Communicator::Thread {
 public:
  explicit Thread(Place& place) : place_(place) {
    thread_ = std::thread([this] { work(); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return joined_; });
    if (!error_) return;
    lock.unlock();
    thread_.join();
    std::rethrow_exception(error_);
  }

  ~Thread() {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
      woken_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  enum class Looks { kWithNaps, kSteady };
  bool run(std::function<bool()> poll, std::chrono::seconds patience, Looks looks = Looks::kWithNaps) {
    auto task = std::make_shared<Task>();
    task->poll = std::move(poll);
    task->looks = looks;
    std::unique_lock lock(mutex_);
    new_tasks_.push_back(task);  // one at most of every thread: it waits below
    woken_ = true;
    wake_.notify_one();
    const auto done = [&] { return task->done; };
    if (patience == 0s) {
      changed_.wait(lock, done);
    } else if (!changed_.wait_for(lock, patience, done)) {
      return false;
    }
    if (task->error) std::rethrow_exception(task->error);
    return true;
  }

  void kick() {
    if (kicked_.exchange(true)) return;
    {
      const std::scoped_lock lock(mutex_);
      woken_ = true;
    }
    wake_.notify_one();
  }

  // On the communication thread.
  std::vector<CommService*> services;
  MPI_Comm world = MPI_COMM_NULL;
  std::function<void(const std::string&)> on_failure;

  // Rank 0: says what `from` has to say, tells the others, for their logs, and ends all of them. `said` begins with the
  // exit code.
  void end_all(std::string_view said, int from) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(said.size()) - 1, said.data() + 1);
    std::fflush(stderr);
    for (int rank = 1; rank < static_cast<int>(place_.size); ++rank) {
      MPI_Request sent = MPI_REQUEST_NULL;
      if (rank == from) continue;
      MPI_Isend(said.data(), static_cast<int>(said.size()), MPI_CHAR, rank, kFailureTag, world, &sent);
    }
    std::this_thread::sleep_for(kForLauncher);
    MPI_Abort(world, said[0]);
  }

 private:
  struct Task {
    std::function<bool()> poll;
    Looks looks = Looks::kWithNaps;
    std::exception_ptr error;
    bool done = false;
  };

  void work() {
    ::prctl(PR_SET_TIMERSLACK, 1000UL);  // naps are short
    try {
      start();
    } catch (...) {
      error_ = std::current_exception();
    }
    {
      const std::scoped_lock lock(mutex_);
      joined_ = true;
      changed_.notify_all();
    }
    if (error_) return;
    loop();
    if (listening_ != MPI_REQUEST_NULL) {
      MPI_Cancel(&listening_);
      MPI_Wait(&listening_, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
  }

  void start() {
    for (const auto& [name, value] : mpi_settings(launch_conditions())) ::setenv(name.c_str(), value.c_str(), 0);
    int given = MPI_THREAD_SINGLE;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given), "MPI_Init_thread");
    if (given < MPI_THREAD_FUNNELED) throw Error("this MPI library does not allow threads (MPI_THREAD_FUNNELED)");
    // What is made from it has the same handler, and so do calls that make windows.
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &world), "MPI_Comm_dup");
    const auto number = [](auto call, MPI_Comm comm) {
      int value = 0;
      check(call(comm, &value), "MPI_Comm_rank");
      return static_cast<unsigned>(value);
    };
    place_.rank = number(MPI_Comm_rank, world);
    place_.size = number(MPI_Comm_size, world);
    MPI_Comm local = MPI_COMM_NULL;
    check(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local), "MPI_Comm_split_type");
    place_.local_rank = number(MPI_Comm_rank, local);
    place_.local_size = number(MPI_Comm_size, local);
    check(MPI_Allreduce(&place_.rank, &place_.host_leader, 1, MPI_UNSIGNED, MPI_MIN, local), "MPI_Allreduce");
    cpu_set_t cores;
    CPU_ZERO(&cores);
    ::sched_getaffinity(0, sizeof(cores), &cores);
    std::vector<cpu_set_t> all_cores(place_.local_size);
    check(MPI_Allgather(&cores, sizeof(cores), MPI_BYTE, all_cores.data(), sizeof(cores), MPI_BYTE, local),
          "MPI_Allgather");
    place_.on_these_cores = std::max(1U, sharing(cores, all_cores));
    MPI_Comm_free(&local);
    int first_here = place_.local_rank == 0 ? 1 : 0;
    int hosts = 0;
    check(MPI_Allreduce(&first_here, &hosts, 1, MPI_INT, MPI_SUM, world), "MPI_Allreduce");
    place_.hosts = static_cast<unsigned>(hosts);
    listen();
  }

  void loop() {
    auto nap = std::chrono::microseconds(kShortestNap);
    unsigned looks = 0;  // that found nothing, in a row
    std::vector<std::shared_ptr<Task>> tasks;
    for (;;) {
      kicked_ = false;
      {
        const std::scoped_lock lock(mutex_);
        tasks.insert(tasks.end(), new_tasks_.begin(), new_tasks_.end());
        new_tasks_.clear();
        if (stop_ && tasks.empty()) return;
      }
      bool moved = false;
      std::erase_if(tasks, [&](const std::shared_ptr<Task>& task) {
        if (!advance(*task)) return false;
        moved = true;
        return true;
      });
      bool expecting = !tasks.empty();
      for (CommService* service : services) {
        moved |= service->poll();
        expecting |= service->expecting();
      }
      hear();
      if (moved) {
        nap = kShortestNap;
        looks = 0;
        continue;
      }
      // A collective goes on by being polled, and whoever asked for it waits.
      const bool steady =
          std::any_of(tasks.begin(), tasks.end(), [](const auto& t) { return t->looks == Looks::kSteady; });
      if (!tasks.empty() && (steady || ++looks < kMostLooks)) {
        std::this_thread::yield();
        continue;
      }
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, nap, [this] { return woken_; })) nap = kShortestNap;
      woken_ = false;
      nap = std::min<std::chrono::microseconds>(2 * nap, expecting ? kLongestNapExpecting : kLongestNap);
    }
  }

  bool advance(Task& task) {
    bool done = true;
    std::exception_ptr error;
    try {
      done = task.poll();
    } catch (...) {
      error = std::current_exception();
    }
    if (!done) return false;
    const std::scoped_lock lock(mutex_);
    task.error = error;
    task.done = true;
    changed_.notify_all();
    return true;
  }

  // Another rank failed: rank 0 hears of it from that one, the others from rank 0.
  void listen() {
    check(MPI_Irecv(heard_.data(), static_cast<int>(heard_.size()), MPI_CHAR, MPI_ANY_SOURCE, kFailureTag, world,
                    &listening_),
          "MPI_Irecv");
  }

  void hear() {
    if (listening_ == MPI_REQUEST_NULL) return;
    int arrived = 0;
    MPI_Status status;
    MPI_Test(&listening_, &arrived, &status);
    if (arrived == 0) return;
    int length = 0;
    MPI_Get_count(&status, MPI_CHAR, &length);
    const std::string_view said(heard_.data(), static_cast<std::size_t>(std::max(1, length)));
    if (on_failure) on_failure(std::string(said.substr(1)));
    if (place_.rank == 0) end_all(said, status.MPI_SOURCE);
  }

  Place& place_;
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

Communicator::Communicator() {
  place_.host = host_name();
  remarks_ = undo_unasked_binding();
  if (!launched()) return;
  thread_ = std::make_unique<Thread>(place_);
}

Communicator::~Communicator() = default;

std::string Communicator::name() const { return fmt::format("rank {} on {}", rank(), host()); }

double Communicator::cpu_seconds() {
  if (alone()) return 0;
  timespec used{};
  run([&] {
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return true;
  });
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

void Communicator::run(std::function<bool()> poll) { thread_->run(std::move(poll), 0s); }
void Communicator::kick() { thread_->kick(); }

void Communicator::add(CommService* service) {
  run([&] {
    thread_->services.push_back(service);
    return true;
  });
}

void Communicator::remove(CommService* service) {
  run([&] {
    std::erase(thread_->services, service);
    return true;
  });
}

namespace {

// A task that starts a request and is done when the request is.
template <typename Start>
std::function<bool()> until_done(Start start) {
  return [start, request = MPI_REQUEST_NULL, started = false]() mutable {
    if (!started) start(&request);
    started = true;
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  };
}

}  // namespace

void Communicator::barrier() {
  if (alone()) return;
  run(until_done([this](MPI_Request* request) { check(MPI_Ibarrier(thread_->world, request), "MPI_Ibarrier"); }));
}

void Communicator::agree(const std::exception_ptr& error) {
  const bool all_well = least(error ? 0 : 1) == 1;
  if (error) std::rethrow_exception(error);
  if (!all_well) barrier();  // to which the rank that has failed does not come
}

// `start` begins the sum of one piece. Naps between looks would stretch a long one by far more than it takes, so it is
// looked after without any once all ranks are there.
template <typename Start>
void Communicator::sum_in_pieces(std::span<std::int64_t> values, const Start& start) {
  if (alone()) return;
  const bool many = values.size() > kManyNumbers;
  if (many) barrier();
  // MPI counts in int.
  for (std::size_t at = 0; at < values.size();) {
    const auto piece = values.subspan(at, std::min<std::size_t>(values.size() - at, std::size_t{1} << 24));
    thread_->run(until_done([&](MPI_Request* request) { start(piece, request); }), 0s,
                 many ? Thread::Looks::kSteady : Thread::Looks::kWithNaps);
    at += piece.size();
  }
}

// Sums of unsigned values wrap around; those of signed ones may do anything.
void Communicator::sum(std::span<std::int64_t> values) {
  sum_in_pieces(values, [&](std::span<std::int64_t> piece, MPI_Request* request) {
    check(MPI_Iallreduce(MPI_IN_PLACE, piece.data(), static_cast<int>(piece.size()), MPI_UINT64_T, MPI_SUM,
                         thread_->world, request),
          "MPI_Iallreduce");
  });
}

void Communicator::sum_at_first(std::span<std::int64_t> values) {
  sum_in_pieces(values, [&](std::span<std::int64_t> piece, MPI_Request* request) {
    const void* const from = first() ? MPI_IN_PLACE : piece.data();
    check(MPI_Ireduce(from, piece.data(), static_cast<int>(piece.size()), MPI_UINT64_T, MPI_SUM, 0, thread_->world,
                      request),
          "MPI_Ireduce");
  });
}

std::int64_t Communicator::least(std::int64_t value) {
  if (alone()) return value;
  run(until_done([&](MPI_Request* request) {
    check(MPI_Iallreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, MPI_MIN, thread_->world, request), "MPI_Iallreduce");
  }));
  return value;
}

std::vector<std::vector<std::byte>> Communicator::gather_everywhere(std::span<const std::byte> bytes) {
  if (alone()) return {{bytes.begin(), bytes.end()}};
  std::vector<std::int64_t> sizes(size(), 0);
  sizes[rank()] = static_cast<std::int64_t>(bytes.size());
  sum(sizes);
  std::vector<std::vector<std::byte>> all(size());
  // One rank after the other, in pieces that MPI can count.
  for (unsigned from = 0; from < size(); ++from) {
    all[from].resize(static_cast<std::size_t>(sizes[from]));
    if (from == rank()) std::copy(bytes.begin(), bytes.end(), all[from].begin());
    for (std::size_t at = 0; at < all[from].size();) {
      const std::size_t count = std::min<std::size_t>(all[from].size() - at, std::size_t{1} << 30);
      run(until_done([&](MPI_Request* request) {
        check(MPI_Ibcast(all[from].data() + at, static_cast<int>(count), MPI_BYTE, static_cast<int>(from),
                         thread_->world, request),
              "MPI_Ibcast");
      }));
      at += count;
    }
  }
  return all;
}

std::vector<std::vector<std::byte>> Communicator::gather(std::span<const std::byte> bytes) {
  if (alone()) return {{bytes.begin(), bytes.end()}};
  std::vector<std::int64_t> sizes(size(), 0);
  sizes[rank()] = static_cast<std::int64_t>(bytes.size());
  sum(sizes);
  constexpr int kTag = 2;
  std::vector<std::vector<std::byte>> all(first() ? size() : 0);
  if (first()) all[0].assign(bytes.begin(), bytes.end());
  for (unsigned from = 1; from < size(); ++from) {
    if (!first() && from != rank()) continue;
    const auto whole = static_cast<std::size_t>(sizes[from]);
    if (first()) all[from].resize(whole);
    for (std::size_t at = 0; at < whole;) {
      const std::size_t count = std::min<std::size_t>(whole - at, std::size_t{1} << 30);
      run(until_done([&](MPI_Request* request) {
        if (first()) {
          check(MPI_Irecv(all[from].data() + at, static_cast<int>(count), MPI_BYTE, static_cast<int>(from), kTag,
                          thread_->world, request),
                "MPI_Irecv");
        } else {
          check(MPI_Isend(bytes.data() + at, static_cast<int>(count), MPI_BYTE, 0, kTag, thread_->world, request),
                "MPI_Isend");
        }
      }));
      at += count;
    }
  }
  return all;
}

std::vector<std::byte> Communicator::broadcast(std::vector<std::byte> bytes) {
  if (alone()) return bytes;
  std::vector<std::int64_t> length{first() ? static_cast<std::int64_t>(bytes.size()) : 0};
  sum(length);
  bytes.resize(static_cast<std::size_t>(length[0]));
  run(until_done([&](MPI_Request* request) {
    check(MPI_Ibcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0, thread_->world, request), "MPI_Ibcast");
  }));
  return bytes;
}

void Communicator::on_failure(std::function<void(const std::string& message)> hear) {
  if (alone()) return;
  run([&] {
    thread_->on_failure = std::move(hear);
    return true;
  });
}

void Communicator::fail(const std::string& message, ExitCode code) {
  if (alone()) {
    fmt::print(stderr, "{}\n", message);
    return;
  }
  // What another thread has to say is a consequence of what the first one has, or comes too late.
  while (failing_.exchange(true)) std::this_thread::sleep_for(kPatience);
  std::signal(SIGTERM, SIG_DFL);  // from the launcher, when another rank was first
  const std::string said = fmt::format("{}{}", static_cast<char>(code), message).substr(0, 2047);
  const auto end_it_here = [&] {
    std::fprintf(stderr, "%s\n", said.c_str() + 1);
    std::fflush(stderr);
  };
  try {
    if (first()) {
      thread_->run(
          [&] {
            thread_->end_all(said, 0);
            return true;
          },
          kPatience);
    } else {
      thread_->run(until_done([&](MPI_Request* request) {
                     check(MPI_Isend(said.data(), static_cast<int>(said.size()), MPI_CHAR, 0, kFailureTag,
                                     thread_->world, request),
                           "MPI_Isend");
                   }),
                   kPatience);
      std::this_thread::sleep_for(kPatience + std::min(rank(), kMostBefore) * kForThoseBefore);
    }
  } catch (...) {
    // Then without MPI.
  }
  // Rank 0 does not answer: say it here. The launcher ends the others.
  end_it_here();
  std::this_thread::sleep_for(kForLauncher);
  ::_exit(static_cast<int>(code));
}

}  // namespace shoal
