// shoal-train as a user runs it: a child process with its own stdout, stderr and exit code.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/store/temporary_directory.h"

namespace shoal {

using Arguments = std::vector<std::string>;
Arguments operator+(Arguments left, const Arguments& right);

struct Outcome {
  int code = -1;   // exit code
  int signal = 0;  // that ended it; 0: none
  std::string out;
  std::string err;
};

// A run that has been started. Killed, if it still runs, when this goes.
class Program {
 public:
  // `folder` is its current one; `launcher` what comes before it on the command line.
  Program(const Arguments& arguments, const std::filesystem::path& folder, const Arguments& launcher = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  bool running();
  void send(int signal);
  Outcome wait();
  std::string said() const;  // on stderr, so far
  // The processes it has started and that run: of a launcher, its ranks on this host.
  std::vector<pid_t> children() const;

 private:
  TemporaryDirectory output_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

template <typename Condition>
void wait_until(Program& program, Condition condition) {
  while (program.running() && !condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Several ranks on this host, more than cores if need be; one: as without mpirun.
Arguments on_ranks(unsigned ranks);
// The same, and one that hangs is ended: its exit code is kHung.
Arguments on_ranks_or_hung(unsigned ranks);
inline constexpr int kHung = 124;

Outcome run_program(const Arguments& arguments, const std::filesystem::path& folder, const Arguments& launcher = {});
// Of a run that must end well.
nlohmann::json run_to_summary(const Arguments& arguments, const std::filesystem::path& folder,
                              const std::filesystem::path& out, const Arguments& launcher = {});

std::string read_text(const std::filesystem::path& file);
std::vector<std::string> lines_of(const std::string& text);
std::vector<std::string> own_lines(const std::string& text);  // Shoal's messages, not mpirun's
std::uint64_t rounds_in(const std::filesystem::path& out);    // so far, in metrics.jsonl
nlohmann::json summary_of(const std::filesystem::path& out);
// A line per round; a line that is cut off (its run was killed) is left out.
std::vector<nlohmann::json> metrics_of(const std::filesystem::path& out);

// What does not depend on where and when it ran is the same to the digit: hash, figures, every round, every node.
void expect_same_results(const std::filesystem::path& out, const std::filesystem::path& reference);

// Every file below `folder`, with its contents (of slabs: size and time): to see that nothing was created or changed.
std::vector<std::pair<std::string, std::string>> contents_of(const std::filesystem::path& folder);

// The least --ram that the arguments work with, from the message that refuses less.
std::uint64_t least_ram(const Arguments& arguments, const std::filesystem::path& folder);

// A few images that can be learned, in MNIST's files: read in no time, and few bytes of --ram.
void write_small_mnist(const std::filesystem::path& folder, std::uint32_t train, std::uint32_t test);
void write_small_cifar10(const std::filesystem::path& folder, std::uint32_t per_file);

}  // namespace shoal
