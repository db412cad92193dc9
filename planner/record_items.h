// What a node's record is made of, to the last byte.
#pragma once

#include <vector>

#include "planner/run_description.h"
#include "store/state_layout.h"

namespace shoal {

// `state`, and around it headers and padding: their sum is layout.state_bytes().
std::vector<StateItem> record_items(const std::vector<StateItem>& state, const StateLayout& layout);

}  // namespace shoal
