#include "comm/comm_thread.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "comm/busy_looks.h"
#include "comm/communicator.h"
#include "comm/launch.h"
#include "comm/mpi_error.h"
#include "store/error.h"

namespace shoal {
namespace {

using namespace std::chrono_literals;

// How long the thread naps when a look around found nothing: doubled each time, up to the first where something is
// under way, to the second where not.
constexpr auto kShortestNap = 10us;
constexpr auto kLongestNapExpecting = 200us;
constexpr auto kLongestNap = 4000us;
constexpr unsigned kMostLooks = 2000;

std::chrono::nanoseconds processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

unsigned sharing(const cpu_set_t& own, const std::vector<cpu_set_t>& ranks) {
  return static_cast<unsigned>(std::count_if(ranks.begin(), ranks.end(), [&](const cpu_set_t& each) {
    cpu_set_t both;
    CPU_AND(&both, &own, &each);
    return CPU_COUNT(&both) > 0;
  }));
}

RankPlace place_in(MPI_Comm world) {
  RankPlace place;
  const auto number = [](auto call, MPI_Comm comm) {
    int value = 0;
    check(call(comm, &value), "MPI_Comm_rank");
    return static_cast<unsigned>(value);
  };
  place.rank = number(MPI_Comm_rank, world);
  place.size = number(MPI_Comm_size, world);
  MPI_Comm local = MPI_COMM_NULL;
  check(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local), "MPI_Comm_split_type");
  place.local_rank = number(MPI_Comm_rank, local);
  place.local_size = number(MPI_Comm_size, local);
  check(MPI_Allreduce(&place.rank, &place.host_leader, 1, MPI_UNSIGNED, MPI_MIN, local), "MPI_Allreduce");
  cpu_set_t cores;
  CPU_ZERO(&cores);
  ::sched_getaffinity(0, sizeof(cores), &cores);
  std::vector<cpu_set_t> all_cores(place.local_size);
  check(MPI_Allgather(&cores, sizeof(cores), MPI_BYTE, all_cores.data(), sizeof(cores), MPI_BYTE, local),
        "MPI_Allgather");
  place.on_these_cores = std::max(1U, sharing(cores, all_cores));
  MPI_Comm_free(&local);
  int first_here = place.local_rank == 0 ? 1 : 0;
  int hosts = 0;
  check(MPI_Allreduce(&first_here, &hosts, 1, MPI_INT, MPI_SUM, world), "MPI_Allreduce");
  place.hosts = static_cast<unsigned>(hosts);
  return place;
}

}  // namespace

CommThread::CommThread(RankPlace& place) : place_(place) {
  thread_ = std::thread([this] { work(); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return joined_; });
  if (!error_) return;
  lock.unlock();
  thread_.join();
  std::rethrow_exception(error_);
}

CommThread::~CommThread() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    woken_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

bool CommThread::run(std::function<bool()> poll, std::chrono::seconds patience, Looks looks) {
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

void CommThread::kick() {
  if (kicked_.exchange(true)) return;
  {
    const std::scoped_lock lock(mutex_);
    woken_ = true;
  }
  wake_.notify_one();
}

void CommThread::end_all(std::string_view said, int from) {
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

void CommThread::work() {
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

void CommThread::start() {
  for (const auto& [name, value] : mpi_settings(launch_conditions())) ::setenv(name.c_str(), value.c_str(), 0);
  int given = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given), "MPI_Init_thread");
  if (given < MPI_THREAD_FUNNELED) throw Error("this MPI library does not allow threads (MPI_THREAD_FUNNELED)");
  // What is made from it has the same handler, and so do calls that make windows.
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_dup(MPI_COMM_WORLD, &world), "MPI_Comm_dup");
  place_ = place_in(world);
  listen();
}

void CommThread::loop() {
  auto nap = std::chrono::microseconds(kShortestNap);
  unsigned looks = 0;  // that found nothing, in a row
  BusyLooks looks_so_far;
  std::vector<std::shared_ptr<Task>> tasks;
  for (;;) {
    kicked_ = false;
    const auto begin = processor_time();
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
    if (moved) looks = 0;
    if (looks_so_far.busy(processor_time() - begin) || moved) {
      nap = kShortestNap;
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

bool CommThread::advance(Task& task) {
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
void CommThread::listen() {
  check(MPI_Irecv(heard_.data(), static_cast<int>(heard_.size()), MPI_CHAR, MPI_ANY_SOURCE, kFailureTag, world,
                  &listening_),
        "MPI_Irecv");
}

void CommThread::hear() {
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

}  // namespace shoal
