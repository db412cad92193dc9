// A run of the shoal-train that lies beside this program, as benchmarks want it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace shoal::bench {

std::filesystem::path this_program();

// The run's summary. `flags` are those of the experiment; nothing is evaluated. `launcher`: what the command begins
// with. The folder is the run's, and gone afterwards.
nlohmann::json train_run(const std::vector<std::string>& flags, const std::filesystem::path& folder,
                         const std::vector<std::string>& launcher = {});

}  // namespace shoal::bench
