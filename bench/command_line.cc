#include "bench/command_line.h"

#include <fmt/format.h>

#include "store/error.h"

namespace shoal::bench {

bool parse(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return false;
  } catch (const CLI::ParseError& error) {
    throw Error(fmt::format("{} (--help explains)", error.what()), ExitCode::kUsage);
  }
  return true;
}

int run_main(const char* program, const std::function<int()>& work) {
  try {
    return work();
  } catch (const Error& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return static_cast<int>(ExitCode::kFailure);
  }
}

}  // namespace shoal::bench
