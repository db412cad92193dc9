#include "trainer/stop_signal.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <string>

namespace shoal {
namespace {

std::atomic<bool> requested{false};
std::atomic<bool> requested_firmly{false};  // by SIGTERM or SIGINT
std::string answer_line;                    // not changed while signals can come

// Only what is allowed in a signal handler.
extern "C" void on_stop_signal(int signal) {
  const int error = errno;
  const bool firm = signal != SIGUSR1;
  if (firm && requested_firmly.exchange(true)) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // comes when this handler is left
  } else if (!requested.exchange(true)) {
    const ssize_t written = ::write(STDERR_FILENO, answer_line.data(), answer_line.size());
    static_cast<void>(written);  // if nobody can be told, the run ends all the same
  }
  errno = error;
}

}  // namespace

void listen_for_stop(const std::string& answer) {
  constexpr const char* kOverProgress = "\r\033[K";
  if (!answer.empty()) answer_line = (::isatty(STDERR_FILENO) == 1 ? kOverProgress : "") + answer + "\n";
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) std::signal(signal, on_stop_signal);
}

bool stop_requested() { return requested; }

}  // namespace shoal
