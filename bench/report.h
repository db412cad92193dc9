// The results for people: a table on stdout. (For programs they are JSON as they are.)
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace shoal::bench {

// One line per result, grouped by workload so that engines stand below each other.
std::string results_table(const nlohmann::json& results);
std::string histograms(const nlohmann::json& results);

// A table of any cells: columns as wide as they need, the first two to the left and the rest to the right.
std::string table(const std::vector<std::vector<std::string>>& rows);

}  // namespace shoal::bench
