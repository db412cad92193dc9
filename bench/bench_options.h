// The command line of shoal-store-bench.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "bench/engine.h"
#include "bench/verb.h"
#include "store/state_layout.h"

namespace shoal::bench {

struct BenchOptions {
  NodeId nodes = 2000;
  std::string layout_name = "lenet5-sgd";
  StateLayout layout;
  std::size_t degree = 8;
  std::uint64_t ram_bytes = 0;                     // after parsing: never 0
  std::optional<std::filesystem::path> directory;  // none: a temporary one here
  std::vector<std::string> engines = {"shoal"};
  std::vector<Verb> verbs = {Verb::kFill, Verb::kStream, Verb::kGossipRound};
  unsigned rounds = 5;
  unsigned warmup = 1;
  std::uint64_t seed = 1;
  unsigned threads = 1;      // after parsing: all cores, unless given
  unsigned queue_depth = 0;  // 0: the store's own choice
  unsigned submit_batch = 32;
  std::uint64_t prefetch_bytes = 0;  // 0: the store's own choice
  std::uint64_t warm_bytes = std::numeric_limits<std::uint64_t>::max();
  bool json = false;
  bool histogram = false;
  bool calibrate = false;
  bool tune = false;

  std::uint64_t state_bytes() const { return layout.state_bytes() * nodes; }
  EngineOptions engine_options(const std::filesystem::path& engine_directory) const;
};

struct CommandLine {
  BenchOptions options;
  std::optional<std::string> print;  // --help, --version, --print-config: print this and do nothing else
};

// Throws a usage Error for anything that is not understood or cannot work.
CommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace shoal::bench
