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

Program::Program(const Arguments& arguments, const fs::path& folder, const Arguments& launcher) {
  Arguments words = launcher + Arguments{SHOAL_TRAIN} + arguments;
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
  const int failed = posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  SHOAL_CHECK(failed == 0);
}

Program::~Program() {
  if (!running()) return;
  for (const pid_t child : children()) ::kill(child, SIGKILL);
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

std::string Program::said() const { return read_text(output_.path() / "err"); }

Outcome Program::wait() {
  if (!ended_) SHOAL_CHECK(::waitpid(pid_, &status_, 0) == pid_);
  ended_ = true;
  Outcome outcome;
  if (WIFEXITED(status_)) outcome.code = WEXITSTATUS(status_);
  if (WIFSIGNALED(status_)) outcome.signal = WTERMSIG(status_);
  outcome.out = read_text(output_.path() / "out");
  outcome.err = said();
  return outcome;
}

std::vector<pid_t> Program::children() const {
  std::vector<pid_t> children;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string stat = read_text(entry.path() / "stat");  // "12 (name) S 1 ..."
    std::istringstream rest(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
    char state = 0;
    pid_t parent = 0;
    if (rest >> state >> parent && parent == pid_ && state != 'Z') children.push_back(std::stoi(name));
  }
  return children;
}

Arguments on_ranks(unsigned ranks) {
  if (ranks == 1) return {};
  for (const char* const name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}) ::setenv(name, "1", 1);
  return {"mpirun", "-np", std::to_string(ranks), "--oversubscribe"};
}

Arguments on_ranks_or_hung(unsigned ranks) {
  return Arguments{"timeout", "--kill-after", "10", "600"} + on_ranks(ranks);
}

Outcome run_program(const Arguments& arguments, const fs::path& folder, const Arguments& launcher) {
  return Program(arguments, folder, launcher).wait();
}

nlohmann::json run_to_summary(const Arguments& arguments, const fs::path& folder, const fs::path& out,
                              const Arguments& launcher) {
  const Outcome outcome = run_program(arguments + Arguments{"--out", out.string()}, folder, launcher);
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

std::vector<std::string> own_lines(const std::string& text) {
  std::vector<std::string> lines = lines_of(text);
  std::erase_if(lines, [](const std::string& line) { return !line.starts_with("shoal-train: "); });
  return lines;
}

std::uint64_t rounds_in(const fs::path& out) {
  const std::string text = read_text(out / "metrics.jsonl");
  return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
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

void expect_same_results(const fs::path& out, const fs::path& reference) {
  const auto summary = summary_of(out);
  const auto expected = summary_of(reference);
  ASSERT_TRUE(summary.is_object() && expected.is_object());
  for (const char* key : {"state_hash", "loss", "consensus_distance", "accuracy"}) {
    EXPECT_EQ(summary[key], expected[key]) << key;
  }
  EXPECT_EQ(read_text(out / "nodes.csv"), read_text(reference / "nodes.csv"));
  const auto lines = metrics_of(out);
  const auto expected_lines = metrics_of(reference);
  ASSERT_EQ(lines.size(), expected_lines.size());
  ASSERT_EQ(lines.size(), expected["rounds"]);
  for (std::size_t round = 0; round < lines.size(); ++round) {
    EXPECT_EQ(lines[round]["round"], round);
    for (const char* key :
         {"acting", "node_steps", "loss", "learning_rate", "consensus_distance", "layers", "accuracy"}) {
      EXPECT_EQ(lines[round].value(key, nlohmann::json()), expected_lines[round].value(key, nlohmann::json()))
          << key << " in round " << round;
    }
  }
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
