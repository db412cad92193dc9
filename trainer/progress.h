// How far the run is, on stderr: one line that is redrawn on a terminal, plain lines now and then elsewhere.
//
// step_done() is called by all workers; it costs an atomic increment and, on a terminal, a clock read.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>

#include "trainer/run_speed.h"

namespace shoal {

enum class Talk { kProgress, kWarnings, kNothing };

class Progress {
 public:
  // `log`, when given, is a file that gets all lines, whatever is said on stderr.
  explicit Progress(Talk talk, const std::filesystem::path& log = {});

  // One thing after the other: "creating nodes", of so many nodes; "training", in rounds from `first_round` on.
  void begin(std::string what, std::uint64_t nodes);
  void begin_training(std::uint64_t rounds, std::uint64_t first_round);
  // Node-steps that are planned, on this rank and on all; then what was made of it, on all.
  void begin_round(std::uint64_t own_steps, std::uint64_t all_steps);
  void end_steps(std::uint64_t all_steps, double seconds);
  void round_done(const std::string& figures);  // "loss 0.41, accuracy 0.87"
  void step_done();                             // of a node
  void say(const std::string& line);            // a line of its own
  void warn(const std::string& line);           // likewise, also where there is no progress
  void note(const std::string& line);           // in the log alone
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(Clock::time_point now);
  void log(const std::string& line);
  void print_line(const std::string& line);
  std::string line(Clock::time_point now) const;

  const Talk talk_;
  const bool terminal_;
  std::ofstream log_;
  std::mutex mutex_;
  std::string what_;
  std::string figures_;
  RunSpeed speed_;
  std::uint64_t rounds_ = 0;            // 0: it has none
  std::uint64_t round_ = 0;             // from 1
  std::atomic<std::uint64_t> done_{0};  // in this round
  std::atomic<std::int64_t> next_draw_{0};
  Clock::time_point last_line_;
  bool drawn_ = false;
};

}  // namespace shoal
