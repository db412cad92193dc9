#include "tests/e2e/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

#include "store/error.h"
#include "trainer/random.h"

namespace shoal {
namespace fs = std::filesystem;

namespace {
constexpr std::uintmax_t kLargeFile = 1 << 20;
}

Arguments operator+(Arguments left, const Arguments& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

Program::Program(const Arguments& arguments, const fs::path& folder) {
  std::vector<std::string> words = {SHOAL_TRAIN};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::string out = (output_.path() / "out").string();
  const std::string err = (output_.path() / "err").string();
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT, 0644);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0644);
  const int failed = posix_spawn(&pid_, SHOAL_TRAIN, &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  SHOAL_CHECK(failed == 0);
}

Program::~Program() {
  if (ended_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, &status_, 0);
}

bool Program::running() {
  if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return !ended_;
}

void Program::send(int signal) {
  if (running()) ::kill(pid_, signal);
}

Outcome Program::wait() {
  if (!ended_) SHOAL_CHECK(::waitpid(pid_, &status_, 0) == pid_);
  ended_ = true;
  Outcome outcome;
  if (WIFEXITED(status_)) outcome.code = WEXITSTATUS(status_);
  if (WIFSIGNALED(status_)) outcome.signal = WTERMSIG(status_);
  outcome.out = read_text(output_.path() / "out");
  outcome.err = read_text(output_.path() / "err");
  return outcome;
}

Outcome run_program(const Arguments& arguments, const fs::path& folder) { return Program(arguments, folder).wait(); }

nlohmann::json run_to_summary(const Arguments& arguments, const fs::path& folder, const fs::path& out) {
  const Outcome outcome = run_program(arguments + Arguments{"--out", out.string()}, folder);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome.code == 0 ? summary_of(folder / out) : nlohmann::json();
}

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

nlohmann::json summary_of(const fs::path& out) {
  return nlohmann::json::parse(read_text(out / "summary.json"), nullptr, false);
}

std::vector<nlohmann::json> metrics_of(const fs::path& out) {
  std::vector<nlohmann::json> lines;
  for (const std::string& line : lines_of(read_text(out / "metrics.jsonl"))) {
    nlohmann::json parsed = nlohmann::json::parse(line, nullptr, false);
    if (!parsed.is_discarded()) lines.push_back(std::move(parsed));
  }
  return lines;
}

std::vector<std::pair<std::string, std::string>> contents_of(const fs::path& folder) {
  std::vector<std::pair<std::string, std::string>> contents;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    std::string what;
    if (entry.is_regular_file()) {
      what = entry.file_size() <= kLargeFile
                 ? read_text(entry.path())
                 : fmt::format("{} {}", entry.file_size(), entry.last_write_time().time_since_epoch().count());
    }
    contents.emplace_back(entry.path().string(), std::move(what));
  }
  std::sort(contents.begin(), contents.end());
  return contents;
}

std::uint64_t least_ram(const Arguments& arguments, const fs::path& folder) {
  const Outcome outcome = run_program(arguments + Arguments{"--ram", "1", "--out", "never-made"}, folder);
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  std::smatch match;
  const bool found = std::regex_search(outcome.err, match, std::regex("at least .* \\((\\d+) bytes\\)"));
  EXPECT_TRUE(found) << outcome.err;
  return found ? std::stoull(match[1]) : 0;
}

namespace {

constexpr std::uint32_t kClasses = 10;

// A bright bar whose place tells the class, and noise.
std::uint8_t pixel(RandomStream& random, std::uint32_t label, std::uint32_t row) {
  const bool in_bar = row / 2 == label + 1;
  return static_cast<std::uint8_t>((in_bar ? 160 : 0) + random.below(90));
}

void write_idx(const fs::path& folder, const std::string& prefix, std::uint32_t count) {
  const auto big_endian = [](std::ofstream& out, std::uint32_t value) {
    for (const int shift : {24, 16, 8, 0}) out.put(static_cast<char>(value >> shift));
  };
  std::ofstream images(folder / (prefix + "-images-idx3-ubyte"), std::ios::binary);
  std::ofstream labels(folder / (prefix + "-labels-idx1-ubyte"), std::ios::binary);
  for (const std::uint32_t number : {0x803U, count, 28U, 28U}) big_endian(images, number);
  for (const std::uint32_t number : {0x801U, count}) big_endian(labels, number);
  RandomStream random(1, Purpose::kTest, count);
  for (std::uint32_t i = 0; i < count; ++i) {
    labels.put(static_cast<char>(i % kClasses));
    for (std::uint32_t p = 0; p < 28 * 28; ++p) images.put(static_cast<char>(pixel(random, i % kClasses, p / 28)));
  }
}

}  // namespace

void write_small_mnist(const fs::path& folder, std::uint32_t train, std::uint32_t test) {
  fs::create_directories(folder);
  write_idx(folder, "train", train);
  write_idx(folder, "t10k", test);
}

void write_small_cifar10(const fs::path& folder, std::uint32_t per_file) {
  fs::create_directories(folder);
  for (const char* name :
       {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"}) {
    std::ofstream out(folder / fmt::format("{}.bin", name), std::ios::binary);
    RandomStream random(1, Purpose::kTest, static_cast<std::uint64_t>(name[11]));
    for (std::uint32_t i = 0; i < per_file; ++i) {
      out.put(static_cast<char>(i % kClasses));
      for (std::uint32_t p = 0; p < 3 * 32 * 32; ++p) {
        out.put(static_cast<char>(pixel(random, i % kClasses, p / 32 % 32)));
      }
    }
  }
}

}  // namespace shoal
