// A program that a test starts, hears from and kills with SIGKILL.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/error.h"

namespace shoal::testing {

// The child's side: a number for the parent, on standard output.
inline bool tell_parent(std::uint64_t number) {
  return ::write(STDOUT_FILENO, &number, sizeof(number)) == sizeof(number);
}

// Killed at the latest when this object goes.
class KilledChild {
 public:
  KilledChild(const std::string& program, std::vector<std::string> arguments) {
    std::vector<char*> argv = {const_cast<char*>(program.c_str())};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    int ends[2];
    SHOAL_CHECK(::pipe(ends) == 0);
    pid_ = ::fork();
    SHOAL_CHECK(pid_ >= 0);
    if (pid_ == 0) {  // nothing but calls that are safe after a fork
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      ::close(ends[1]);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    told_ = ends[0];
  }
  ~KilledChild() {
    kill();
    ::close(told_);
  }
  KilledChild(const KilledChild&) = delete;
  KilledChild& operator=(const KilledChild&) = delete;

  // Waits for the next number; nothing when the child has ended and all is heard.
  std::optional<std::uint64_t> hear() {
    std::uint64_t number = 0;
    if (::read(told_, &number, sizeof(number)) != sizeof(number)) return std::nullopt;
    return number;
  }
  // Whether it was SIGKILL that ended it: not if it had failed before.
  bool kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, &status_, 0);
    }
    pid_ = 0;
    return WIFSIGNALED(status_) && WTERMSIG(status_) == SIGKILL;
  }

 private:
  pid_t pid_ = 0;
  int told_ = -1;
  int status_ = 0;
};

}  // namespace shoal::testing
