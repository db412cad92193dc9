// JSON has no NaN and no infinity; a figure that is none is null.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>

namespace shoal {

inline nlohmann::json json_number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

}  // namespace shoal
