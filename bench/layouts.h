// The state layouts that the benchmark knows by name.
#pragma once

#include <string>
#include <string_view>

#include "store/state_layout.h"

namespace shoal::bench {

inline constexpr std::string_view kLayoutChoices = "lenet5-sgd, resnet18-adam, PUBLIC:PRIVATE sizes such as 1MiB:2MiB";

// A name, or two sizes in multiples of 4 bytes, the second of which may be 0. Throws a usage Error that lists the
// choices.
StateLayout parse_layout(std::string_view text);

}  // namespace shoal::bench
