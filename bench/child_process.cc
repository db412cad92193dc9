#include "bench/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "bench/memory_cgroup.h"
#include "store/error.h"
#include "store/size_text.h"

namespace shoal::bench {
namespace {

volatile std::sig_atomic_t interrupt_seen = 0;

void throw_if_interrupted() {
  if (interrupt_seen != 0) throw Error("interrupted");
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

struct Pipe {
  Descriptor out;
  Descriptor in;
};

Pipe make_pipe() {
  int fds[2] = {};
  if (::pipe(fds) != 0) throw_errno("pipe", errno);
  return {Descriptor(fds[0]), Descriptor(fds[1])};
}

void write_all(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t put = ::write(fd, text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) {
      throw_if_interrupted();
    } else if (put < 0) {
      throw_errno("writing to a pipe", errno);
    } else {
      done += static_cast<std::size_t>(put);
    }
  }
}

// Reads to the end of the stream.
class PipeReader {
 public:
  explicit PipeReader(int fd) : fd_(fd) {}

  std::optional<std::string> line() {
    for (;;) {
      if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
        std::string result = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return result;
      }
      if (!fill()) return std::nullopt;
    }
  }

  std::string rest() {
    while (fill()) continue;
    return std::move(buffer_);
  }

 private:
  bool fill() {
    char bytes[65536];
    for (;;) {
      const ssize_t got = ::read(fd_, bytes, sizeof(bytes));
      if (got >= 0) buffer_.append(bytes, static_cast<std::size_t>(got));
      if (got >= 0) return got > 0;
      if (errno != EINTR) throw_errno("reading from a pipe", errno);
      throw_if_interrupted();
    }
  }

  int fd_;
  std::string buffer_;
};

// Killed if it is still there when we leave.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }

  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
};

// In a child.
[[noreturn]] void become(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

pid_t checked_fork() {
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw_errno("fork", errno);
  if (pid == 0) {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  }
  return pid;
}

// Messages are one line of JSON each: {"question": ...} any number of times, then {"result": ...} or {"error": ...}.
void run_child(const ChildTask& task, int from_parent, int to_parent) {
  nlohmann::json message;
  try {
    if (task.cgroup != nullptr) task.cgroup->join();
    PipeReader answers(from_parent);
    message["result"] = task.run([&](const nlohmann::json& question) {
      write_all(to_parent, nlohmann::json{{"question", question}}.dump() + "\n");
      const std::optional<std::string> answer = answers.line();
      if (!answer) throw Error("the benchmark's parent process is gone");
      return nlohmann::json::parse(*answer);
    });
  } catch (const Error& error) {
    message = {{"error", error.what()}, {"exit_code", static_cast<int>(error.exit_code())}};
  } catch (const std::exception& error) {
    message = {{"error", error.what()}, {"exit_code", static_cast<int>(ExitCode::kFailure)}};
  }
  write_all(to_parent, message.dump() + "\n");
}

std::string how_it_ended(int status, const MemoryCgroup* cgroup) {
  if (!WIFSIGNALED(status)) return fmt::format("the engine's process ended with code {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  std::string text = fmt::format("the engine's process was ended by signal {} ({})", signal, ::strsignal(signal));
  if (signal == SIGKILL && cgroup != nullptr) {
    text += fmt::format("; out of memory in its cgroup of {}?", size_text(cgroup->limit_bytes()));
  }
  return text;
}

}  // namespace

nlohmann::json run_in_child(const ChildTask& task) {
  throw_if_interrupted();
  Pipe up = make_pipe();
  Pipe down = make_pipe();
  const pid_t pid = checked_fork();
  if (pid == 0) {
    up.out.close();
    down.in.close();
    int code = 1;
    try {
      run_child(task, down.out.get(), up.in.get());
      code = 0;
    } catch (const std::exception& error) {
      fmt::print(stderr, "shoal-store-bench: {}\n", error.what());
    }
    std::fflush(nullptr);
    ::_exit(code);
  }
  Child child(pid);
  up.in.close();
  down.out.close();
  PipeReader messages(up.out.get());
  while (const std::optional<std::string> line = messages.line()) {
    const nlohmann::json message = nlohmann::json::parse(*line);
    if (message.contains("question")) {
      write_all(down.in.get(), task.answer(message["question"]).dump() + "\n");
      continue;
    }
    child.wait();
    if (message.contains("error"))
      throw Error(message["error"], static_cast<ExitCode>(message["exit_code"].get<int>()));
    return message["result"];
  }
  throw Error(how_it_ended(child.wait(), task.cgroup));
}

std::string run_program(const std::vector<std::string>& arguments) {
  throw_if_interrupted();
  Pipe output = make_pipe();
  const pid_t pid = checked_fork();
  if (pid == 0) {
    ::dup2(output.in.get(), STDOUT_FILENO);
    output.in.close();
    output.out.close();
    become(arguments);
  }
  Child child(pid);
  output.in.close();
  std::string text = PipeReader(output.out.get()).rest();
  const int status = child.wait();
  throw_if_interrupted();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    throw Error(
        fmt::format("'{0}' is not installed; install it (Debian: apt-get install {0}) or leave out the flag "
                    "that needs it",
                    arguments[0]));
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw Error(fmt::format("'{}' failed: {}", arguments[0], text));
  return text;
}

ProgramBeside::ProgramBeside(const std::vector<std::string>& arguments) : pid_(checked_fork()) {
  if (pid_ != 0) return;
  const int nowhere = ::open("/dev/null", O_RDWR);
  ::dup2(nowhere, STDOUT_FILENO);
  ::dup2(nowhere, STDERR_FILENO);
  become(arguments);
}

bool ProgramBeside::runs() {
  int status = 0;
  if (pid_ < 0 || ::waitpid(pid_, &status, WNOHANG) == 0) return pid_ >= 0;
  pid_ = -1;
  return false;
}

ProgramBeside::~ProgramBeside() {
  if (pid_ >= 0) const Child ended(pid_);
}

void throw_on_interrupt() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupt_seen = 1; };  // no SA_RESTART: a waiting read() returns
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

bool interrupted() { return interrupt_seen != 0; }

}  // namespace shoal::bench
