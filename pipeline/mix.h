// Mixing: one fused pass over a node's own weights and its neighbours', in their order, in fp32.
#pragma once

#include <cstddef>
#include <span>

#include "store/record_check.h"

namespace shoal {

// out[k] = sum over j of weights[j] * inputs[j][k], added up in the order of j. `out` overlaps no input. The same bits
// on every machine and for every split of the range. `checks`, of the first inputs' records, go along.
void mix(std::span<const float> weights, std::span<const float* const> inputs, float* out, std::size_t size,
         std::span<RecordCheck> checks = {});

}  // namespace shoal
