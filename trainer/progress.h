// How far the run is, on stderr: one line that is redrawn on a terminal, plain lines now and then elsewhere.
//
// node_done() is called by all workers; it costs an atomic increment, and now and then a clock read.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>

namespace shoal {

enum class Talk { kProgress, kQuiet };

class Progress {
 public:
  // `log`, when given, is a file that gets all lines, whatever is said on stderr.
  explicit Progress(Talk talk, const std::filesystem::path& log = {});

  // One thing after the other: "creating", "training", ...; `total` nodes in all its rounds, `done` of them before.
  void begin(std::string what, std::uint64_t total, std::uint64_t rounds, std::uint64_t first_round);
  void round_done(std::uint64_t round, const std::string& figures);  // figures: "loss 0.41, accuracy 0.87"
  void node_done();
  void say(const std::string& line);  // a line of its own
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(Clock::time_point now);
  void log(const std::string& line);
  std::string eta(Clock::time_point now) const;

  const bool quiet_;
  const bool terminal_;
  std::ofstream log_;
  std::mutex mutex_;
  std::string what_;
  std::string figures_;
  std::uint64_t total_ = 0;
  std::uint64_t rounds_ = 0;
  std::uint64_t round_ = 0;
  std::uint64_t first_round_ = 0;
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::int64_t> next_draw_{0};
  Clock::time_point start_;
  Clock::time_point last_line_;
  bool drawn_ = false;
};

}  // namespace shoal
