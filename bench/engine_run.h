// Runs one engine through its script and measures it. Called in the engine's own process.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "bench/bench_options.h"
#include "bench/fio.h"

namespace shoal::bench {

// How the run talks to the process that started it.
struct RunHooks {
  std::function<void(const nlohmann::json& result)> result;  // one workload is done
  std::function<FioSample(double read_share)> calibrate;     // measure fio now; empty without --calibrate
};

// {"facts": of the engine, "fingerprint": of all records at the end, "expectation": equal for engines that did the same
// and so must have equal fingerprints}
nlohmann::json run_engine(const std::string& engine_name, const BenchOptions& options,
                          const std::filesystem::path& directory, const RunHooks& hooks);

}  // namespace shoal::bench
