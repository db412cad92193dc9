// --tune: looks for the best I/O settings of the store on this disk.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/bench_options.h"

namespace shoal::bench {

// One setting at a time, the others at the best so far, with the stream workload on one filled store. Called in a
// process of its own. {"trials": [{queue_depth, prefetch_bytes, submit_batch, seconds, gigabytes_per_second}],
// "best": the same}
nlohmann::json run_tune(const BenchOptions& options, const std::filesystem::path& directory);

std::string tune_table(const nlohmann::json& outcome);  // commented out, so that the whole output is a config file
std::string config_fragment(const nlohmann::json& outcome);

}  // namespace shoal::bench
