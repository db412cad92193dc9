#include "trainer/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "store/error.h"

namespace shoal {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(200);
constexpr auto kLineEvery = std::chrono::seconds(5);

}  // namespace

Progress::Progress(Talk talk, const std::filesystem::path& log) : talk_(talk), terminal_(isatty(STDERR_FILENO) == 1) {
  if (log.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(log.parent_path(), error);
  errno = 0;
  if (!error) log_.open(log, std::ios::app);
  if (log_.is_open()) return;
  throw Error(fmt::format("--log-dir: cannot write {}: {}", log.string(), error ? error.message() : errno_text(errno)));
}

void Progress::log(const std::string& line) {
  if (log_.is_open()) log_ << line << std::endl;
}

void Progress::begin(std::string what, std::uint64_t nodes) {
  const std::scoped_lock lock(mutex_);
  const Clock::time_point now = Clock::now();
  what_ = std::move(what);
  figures_.clear();
  rounds_ = 0;
  done_ = 0;
  speed_ = RunSpeed("nodes", 1, now);
  speed_.begin_round(nodes, nodes, now);
}

void Progress::begin_training(std::uint64_t rounds, std::uint64_t first_round) {
  const std::scoped_lock lock(mutex_);
  what_ = "training";
  figures_.clear();
  rounds_ = rounds;
  round_ = first_round;
  done_ = 0;
  last_line_ = Clock::now();
  speed_ = RunSpeed("node-steps", rounds - first_round, last_line_);
}

void Progress::begin_round(std::uint64_t own_steps, std::uint64_t all_steps) {
  const std::scoped_lock lock(mutex_);
  done_ = 0;
  ++round_;
  speed_.begin_round(own_steps, all_steps, Clock::now());
}

void Progress::end_steps(std::uint64_t all_steps, double seconds) {
  const std::scoped_lock lock(mutex_);
  speed_.end_steps(all_steps, seconds);
}

void Progress::step_done() {
  ++done_;
  if (talk_ != Talk::kProgress || !terminal_) return;
  const Clock::time_point now = Clock::now();
  std::int64_t due = next_draw_.load(std::memory_order_relaxed);
  if (now.time_since_epoch().count() < due) return;
  if (!next_draw_.compare_exchange_strong(due, (now + kRedraw).time_since_epoch().count())) return;
  const std::scoped_lock lock(mutex_);
  draw(now);
}

// "training round 3/20, 632.7 node-steps/s, 0:12 min left, loss 0.41"
std::string Progress::line(Clock::time_point now) const {
  std::string line = what_;
  if (rounds_ > 0) line += fmt::format(" round {}/{}", round_, rounds_);
  for (const std::string& part : {speed_.text(done_, now), figures_}) {
    if (!part.empty()) line += ", " + part;
  }
  return line;
}

void Progress::draw(Clock::time_point now) {
  fmt::print(stderr, "\r\033[K{:3.0f} % {}", 100 * speed_.done(done_), line(now));
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::round_done(const std::string& figures) {
  const std::scoped_lock lock(mutex_);
  speed_.end_round();
  figures_ = figures;
  const Clock::time_point now = Clock::now();
  log(line(now));
  if (talk_ != Talk::kProgress || terminal_) return;
  if (now - last_line_ < kLineEvery && round_ < rounds_) return;
  last_line_ = now;
  fmt::print(stderr, "{}\n", line(now));
}

void Progress::say(const std::string& line) {
  const std::scoped_lock lock(mutex_);
  log(line);
  if (talk_ == Talk::kProgress) print_line(line);
}

void Progress::warn(const std::string& line) {
  const std::scoped_lock lock(mutex_);
  log(line);
  if (talk_ != Talk::kNothing) print_line(line);
}

void Progress::print_line(const std::string& line) {
  fmt::print(stderr, "{}{}\n", drawn_ ? "\r\033[K" : "", line);
  drawn_ = false;
}

void Progress::note(const std::string& line) {
  const std::scoped_lock lock(mutex_);
  log(line);
}

void Progress::end() {
  const std::scoped_lock lock(mutex_);
  if (drawn_) fmt::print(stderr, "\r\033[K");
  drawn_ = false;
}

}  // namespace shoal
