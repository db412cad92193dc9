// The one exception type of Shoal, and the check for bugs.
//
// An Error's message is meant for the user: what failed, on which path, offset or node, and what to do. It is thrown
// where the operation fails and caught once, in each program's main, which prints it and returns `exit_code()`.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace shoal {

// What a program's exit code tells the shell. Documented in the README.
enum class ExitCode { kOk = 0, kFailure = 1, kUsage = 2, kDoesNotFit = 3 };

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ExitCode code = ExitCode::kFailure)
      : std::runtime_error(message), code_(code) {}

  ExitCode exit_code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

// "No such file or directory (errno 2)".
std::string errno_text(int error_number);

// Throws Error("<what>: <errno text>").
[[noreturn]] void throw_errno(std::string_view what, int error_number);

namespace detail {
[[noreturn]] void check_failed(const char* condition, const char* file, int line) noexcept;
}

}  // namespace shoal

// A bug in Shoal, not a user's mistake: prints the condition and aborts. On in release builds too.
#define SHOAL_CHECK(condition) \
  (static_cast<bool>(condition) ? void(0) : ::shoal::detail::check_failed(#condition, __FILE__, __LINE__))
