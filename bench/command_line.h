// How a benchmark's command line ends that does not lead to a measurement: --help, a mistake, a failure.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace shoal::bench {

// False: it was --help, which is printed. A usage Error for what the app does not know.
bool parse(CLI::App& app, int argc, const char* const* argv);

// The exit code of `work`; an exception is one line on stderr, after the program's name.
int run_main(const char* program, const std::function<int()>& work);

}  // namespace shoal::bench
