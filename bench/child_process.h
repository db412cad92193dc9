// One engine's run in a process of its own: its peak RSS is its own, its page cache is limited with it, and a crash
// does not take the other engines' results along.
#pragma once

#include <sys/types.h>

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace shoal::bench {

class MemoryCgroup;

// Asks the parent and waits for its answer. For the child's main thread.
using AskParent = std::function<nlohmann::json(const nlohmann::json& question)>;

struct ChildTask {
  std::function<nlohmann::json(const AskParent&)> run;          // in the child; what it returns comes back
  std::function<nlohmann::json(const nlohmann::json&)> answer;  // in the parent; answers questions
  const MemoryCgroup* cgroup = nullptr;
};

// Forks (so the caller must not have threads), runs, waits. An Error of the child is thrown here; death by a signal is
// an Error that names it. The child does not outlive the parent.
nlohmann::json run_in_child(const ChildTask& task);

// Runs a program to its end and returns what it printed on stdout. Error when it can't be started or fails.
std::string run_program(const std::vector<std::string>& arguments);

// A program that runs beside the caller until this goes; what it prints is lost.
class ProgramBeside {
 public:
  explicit ProgramBeside(const std::vector<std::string>& arguments);
  ProgramBeside(const ProgramBeside&) = delete;
  ProgramBeside& operator=(const ProgramBeside&) = delete;
  ~ProgramBeside();
  bool runs();

 private:
  pid_t pid_;
};

// From now on SIGINT and SIGTERM make the functions above throw, so that temporary files are removed on the way out.
void throw_on_interrupt();
bool interrupted();

}  // namespace shoal::bench
