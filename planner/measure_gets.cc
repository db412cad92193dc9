#include "planner/measure_gets.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "comm/arena_window.h"
#include "comm/communicator.h"
#include "comm/mpi_error.h"
#include "planner/train_child.h"
#include "store/error.h"

namespace shoal {
namespace {

constexpr std::uint64_t kWindowBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kFlying = 16;  // as many as a store has on their way
constexpr int kRepeats = 5;

double median_seconds(const std::function<void()>& work) {
  std::vector<double> seconds;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    work();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(seconds);
  return seconds[kRepeats / 2];
}

// Rank 0 reads all records of rank 1.
double bytes_per_second(Communicator& ranks, HostReads path, std::uint64_t record_bytes) {
  const std::uint64_t count = std::max<std::uint64_t>(kFlying, kWindowBytes / record_bytes);
  // As little stays mapped as in a run whose --ram is as large as the window.
  const std::uint64_t bytes = count * record_bytes;
  ArenaWindow window(ranks, bytes, path, ArenaWindow::mapped_share(bytes));
  std::memset(window.memory().data(), 1, window.memory().size());
  ranks.barrier();
  double seconds = 1;
  if (ranks.first()) {
    std::vector<std::byte> frames(kFlying * record_bytes);
    const auto frame = [&](std::uint64_t i) {
      return std::span(frames).subspan(i % kFlying * record_bytes, record_bytes);
    };
    seconds = median_seconds([&] {
      if (window.mapped(1) != nullptr) {
        for (std::uint64_t i = 0; i < count; ++i) window.copy(1, i * record_bytes, frame(i));
        return;
      }
      ranks.run([&] {
        std::vector<MPI_Request> requests(kFlying, MPI_REQUEST_NULL);
        for (std::uint64_t i = 0; i < count; ++i) {
          MPI_Request& request = requests[i % kFlying];
          check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
          window.get(1, i * record_bytes, frame(i), &request);
        }
        check(MPI_Waitall(static_cast<int>(kFlying), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
        return true;
      });
    });
  }
  ranks.barrier();
  return static_cast<double>(bytes) / seconds;
}

}  // namespace

GetSpeed measure_gets(std::uint64_t record_bytes, const std::filesystem::path& folder) {
  const nlohmann::json figures = run_ranks(2, "shoal-plan", {kMeasureGets, std::to_string(record_bytes)}, folder);
  return {figures["mapped"].get<double>(), figures["one_sided"].get<double>()};
}

void get_as_rank(std::uint64_t record_bytes) {
  Communicator ranks;
  if (ranks.size() != 2 || record_bytes == 0)
    throw Error(fmt::format("{} is for calibrate alone", kMeasureGets), ExitCode::kUsage);
  nlohmann::json figures;
  figures["mapped"] = bytes_per_second(ranks, HostReads::kMapped, record_bytes);
  figures["one_sided"] = bytes_per_second(ranks, HostReads::kOneSided, record_bytes);
  if (ranks.first()) fmt::print("{}\n", figures.dump());
}

}  // namespace shoal
