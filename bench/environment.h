// Where and with what the figures were measured, for the report.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "bench/bench_options.h"

namespace shoal::bench {

nlohmann::json describe_environment(const BenchOptions& options, const std::filesystem::path& directory);

}  // namespace shoal::bench
