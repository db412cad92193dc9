// What the crash test's child does and its parent expects: round by round the same, from nothing but a seed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <string>

#include "tests/store/store_harness.h"

namespace shoal::testing {

struct CrashScenario {
  std::uint64_t seed = 0;
  NodeId nodes = 24;
  std::size_t max_reads = 4;

  StoreOptions options(const std::filesystem::path& directory) const {
    StoreOptions options;
    options.directory = directory;
    options.layout = layout_of(6000, 9000);
    options.nodes = nodes;
    options.max_reads_per_step = max_reads;
    options.ram_bytes = StateStore::minimum_ram(options) + 6 * options.layout.state_bytes();
    if (seed % 3 == 0) options.warm_bytes = nodes * options.layout.state_bytes() / 2;  // some of it always cold
    if (seed % 3 == 1) options.io = IoEngine::kPosix;
    if (seed % 6 == 5) options.io = IoEngine::kMapped;
    return options;
  }

  std::mt19937_64 random(std::uint64_t round) const { return std::mt19937_64(seed * 1000003 + round); }

  std::shared_ptr<const AccessPlan> plan(std::uint64_t round) const {
    if (round == 0) return creation_plan(nodes);
    std::mt19937_64 generator = random(round);
    return random_plan(nodes, max_reads, generator);
  }

  // What the child tells.
  static std::uint64_t prepared(std::uint64_t epoch) { return 2 * epoch; }
  static std::uint64_t committed(std::uint64_t epoch) { return 2 * epoch + 1; }

  // The round that follows a checkpoint with this note.
  static std::uint64_t round_after(const std::string& note) { return note.empty() ? 0 : std::stoull(note); }
};

}  // namespace shoal::testing
