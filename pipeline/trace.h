// A timeline of what the workers did, for Chrome's and Perfetto's viewers (--trace).
//
// Events go into memory that is taken once, and to a file at the end; when it is full, later events are counted and
// left out. Thread-safe: adding is one atomic increment.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace shoal {

using Clock = std::chrono::steady_clock;

class Trace {
 public:
  static constexpr std::uint64_t kNoNode = ~std::uint64_t{0};

  explicit Trace(std::size_t capacity = std::size_t{1} << 19) : start_(Clock::now()), events_(capacity) {}

  // `name` is a literal. Lanes are rows of the picture: workers 0, 1, ...; kMainLane for the program itself.
  static constexpr std::uint32_t kMainLane = 1000;
  void add(const char* name, std::uint32_t lane, Clock::time_point from, Clock::time_point to,
           std::uint64_t node = kNoNode) noexcept;
  std::uint64_t left_out() const;
  void write(const std::filesystem::path& file) const;

 private:
  struct Event {
    const char* name = nullptr;
    std::uint32_t lane = 0;
    std::int64_t from = 0;  // ns since start_
    std::int64_t length = 0;
    std::uint64_t node = kNoNode;
  };
  Clock::time_point start_;
  std::vector<Event> events_;
  std::atomic<std::size_t> used_{0};
};

}  // namespace shoal
