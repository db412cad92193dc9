#include "comm/communicator.h"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <thread>

#include "comm/comm_thread.h"
#include "comm/launch.h"
#include "comm/mpi_error.h"

namespace shoal {
namespace {

using namespace std::chrono_literals;

// Sums of more numbers than this go through MPI in many small pieces, each of which takes a few looks on both sides:
// without naps a round of ResNet-18 on two ranks takes 2.8 s instead of 5.5.
constexpr std::size_t kManyNumbers = 1 << 14;
// How long a rank that failed waits for rank 0 to end the run before it does so itself; where several have failed, one
// after the other, since the first ends the others: mpirun takes a second or two for it.
constexpr auto kPatience = 5s;
constexpr auto kForThoseBefore = 2500ms;
constexpr unsigned kMostBefore = 3;

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

}  // namespace

Communicator::Communicator(std::size_t most_bytes) : most_bytes_(most_bytes) {
  remarks_ = undo_unasked_binding();
  if (launched()) thread_ = std::make_unique<CommThread>(place_);
  place_.host = host_name();
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

void Communicator::run(std::function<bool()> poll) { thread_->run(std::move(poll)); }
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

// One after the other, since MPI counts in int.
template <typename T, typename Do>
void for_pieces(std::span<T> whole, std::size_t most, const Do& act) {
  for (std::size_t at = 0; at < whole.size(); at += most) act(whole.subspan(at, std::min(most, whole.size() - at)));
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
  // The MPI library needs as much memory again for a piece.
  for_pieces(values, std::min<std::size_t>(most_bytes_ / sizeof(std::int64_t), 1 << 24), [&](auto piece) {
    thread_->run(until_done([&](MPI_Request* request) { start(piece, request); }), 0s,
                 many ? CommThread::Looks::kSteady : CommThread::Looks::kWithNaps);
  });
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

std::vector<std::int64_t> Communicator::sizes_of(std::size_t own) {
  std::vector<std::int64_t> sizes(size(), 0);
  sizes[rank()] = static_cast<std::int64_t>(own);
  sum(sizes);
  return sizes;
}

void Communicator::give_all(std::span<std::byte> bytes, unsigned from) {
  for_pieces(bytes, most_bytes_, [&](auto piece) {
    run(until_done([&](MPI_Request* request) {
      check(MPI_Ibcast(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, static_cast<int>(from), thread_->world,
                       request),
            "MPI_Ibcast");
    }));
  });
}

std::vector<std::vector<std::byte>> Communicator::gather_everywhere(std::span<const std::byte> bytes) {
  if (alone()) return {{bytes.begin(), bytes.end()}};
  const std::vector<std::int64_t> sizes = sizes_of(bytes.size());
  std::vector<std::vector<std::byte>> all(size());
  for (unsigned from = 0; from < size(); ++from) {
    all[from].resize(static_cast<std::size_t>(sizes[from]));
    if (from == rank()) std::ranges::copy(bytes, all[from].begin());
    give_all(all[from], from);
  }
  return all;
}

std::vector<std::vector<std::byte>> Communicator::gather(std::span<const std::byte> bytes) {
  if (alone()) return {{bytes.begin(), bytes.end()}};
  const std::vector<std::int64_t> sizes = sizes_of(bytes.size());
  constexpr int kTag = 2;
  const auto each_piece = [&](auto whole, auto call) {
    for_pieces(whole, most_bytes_, [&](auto piece) {
      run(until_done([&](MPI_Request* request) { call(piece.data(), static_cast<int>(piece.size()), request); }));
    });
  };
  if (!first()) {
    each_piece(bytes, [&](const std::byte* piece, int count, MPI_Request* request) {
      check(MPI_Isend(piece, count, MPI_BYTE, 0, kTag, thread_->world, request), "MPI_Isend");
    });
    return {};
  }
  std::vector<std::vector<std::byte>> all(size());
  all[0].assign(bytes.begin(), bytes.end());
  for (unsigned from = 1; from < size(); ++from) {
    all[from].resize(static_cast<std::size_t>(sizes[from]));
    each_piece(std::span(all[from]), [&](std::byte* piece, int count, MPI_Request* request) {
      check(MPI_Irecv(piece, count, MPI_BYTE, static_cast<int>(from), kTag, thread_->world, request), "MPI_Irecv");
    });
  }
  return all;
}

std::vector<std::byte> Communicator::broadcast(std::vector<std::byte> bytes) {
  if (alone()) return bytes;
  bytes.resize(static_cast<std::size_t>(sizes_of(first() ? bytes.size() : 0)[0]));
  give_all(bytes, 0);
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
                     check(MPI_Isend(said.data(), static_cast<int>(said.size()), MPI_CHAR, 0, CommThread::kFailureTag,
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
  std::this_thread::sleep_for(CommThread::kForLauncher);
  ::_exit(static_cast<int>(code));
}

}  // namespace shoal
