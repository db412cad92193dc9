#include "trainer/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>

#include "store/error.h"

namespace shoal {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(200);
constexpr auto kLineEvery = std::chrono::seconds(5);

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::lround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole % 3600 / 60);
}

}  // namespace

Progress::Progress(Talk talk, const std::filesystem::path& log)
    : quiet_(talk == Talk::kQuiet), terminal_(isatty(STDERR_FILENO) == 1) {
  if (log.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(log.parent_path(), error);
  log_.open(log, std::ios::app);
  if (!log_) throw Error(fmt::format("--log-dir: cannot write {}", log.string()));
}

void Progress::log(const std::string& line) {
  if (log_.is_open()) log_ << line << std::endl;
}

void Progress::begin(std::string what, std::uint64_t total, std::uint64_t rounds, std::uint64_t first_round) {
  const std::scoped_lock lock(mutex_);
  what_ = std::move(what);
  figures_.clear();
  total_ = total;
  rounds_ = rounds;
  round_ = first_round_ = first_round;
  done_ = 0;
  start_ = last_line_ = Clock::now();
}

void Progress::node_done() {
  ++done_;
  if (quiet_ || !terminal_) return;
  const Clock::time_point now = Clock::now();
  std::int64_t due = next_draw_.load(std::memory_order_relaxed);
  if (now.time_since_epoch().count() < due) return;
  if (!next_draw_.compare_exchange_strong(due, (now + kRedraw).time_since_epoch().count())) return;
  const std::scoped_lock lock(mutex_);
  draw(now);
}

std::string Progress::eta(Clock::time_point now) const {
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const auto done = static_cast<double>(done_.load());
  if (done == 0 || seconds <= 0) return "";
  const double left = total_ > done_ ? seconds / done * (static_cast<double>(total_) - done) : 0;
  return fmt::format("{:.0f} nodes/s, {} left", done / seconds, duration_text(left));
}

void Progress::draw(Clock::time_point now) {
  std::string line = what_;
  if (rounds_ > 0) line += fmt::format(" round {}/{}", round_ + 1, rounds_);
  line += fmt::format(", {:.0f} %, {}",
                      total_ > 0 ? 100.0 * static_cast<double>(done_) / static_cast<double>(total_) : 0, eta(now));
  if (!figures_.empty()) line += ", " + figures_;
  fmt::print(stderr, "\r\033[K{}", line);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::round_done(std::uint64_t round, const std::string& figures) {
  const std::scoped_lock lock(mutex_);
  round_ = round + 1;
  // Not all nodes act in every round of every algorithm: the rounds so far tell how many do.
  if (rounds_ > first_round_) total_ = done_ / (round_ - first_round_) * (rounds_ - first_round_);
  figures_ = figures;
  const Clock::time_point now = Clock::now();
  log(fmt::format("{} round {}/{}, {}, {}", what_, round + 1, rounds_, eta(now), figures));
  if (quiet_ || terminal_) return;
  if (now - last_line_ < kLineEvery && round + 1 < rounds_) return;
  last_line_ = now;
  fmt::print(stderr, "{} round {}/{}, {}, {}\n", what_, round + 1, rounds_, eta(now), figures);
}

void Progress::say(const std::string& line) {
  const std::scoped_lock lock(mutex_);
  log(line);
  if (quiet_) return;
  fmt::print(stderr, "{}{}\n", drawn_ ? "\r\033[K" : "", line);
  drawn_ = false;
}

void Progress::end() {
  const std::scoped_lock lock(mutex_);
  if (drawn_) fmt::print(stderr, "\r\033[K");
  drawn_ = false;
}

}  // namespace shoal
