// report.html: a run at a glance, in one file that any browser opens without a network.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "trainer/graph.h"

namespace shoal {

// Reads metrics.jsonl of the run's folder.
std::string report_html(const std::filesystem::path& folder, const nlohmann::json& summary,
                        const GraphStatistics& network);

}  // namespace shoal
