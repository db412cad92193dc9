#include "pipeline/mix.h"

#include <algorithm>

#include "pipeline/vector_clones.h"
#include "store/error.h"

namespace shoal {
namespace {

// The sum stays in the first-level cache while the inputs stream by; measured best between 512 and 4,096 floats.
constexpr std::size_t kBlock = 1024;

SHOAL_VECTOR_CLONES void scale(float weight, const float* __restrict input, float* __restrict out, std::size_t size) {
  for (std::size_t k = 0; k < size; ++k) out[k] = weight * input[k];
}

SHOAL_VECTOR_CLONES void add_scaled(float weight, const float* __restrict input, float* __restrict out,
                                    std::size_t size) {
  for (std::size_t k = 0; k < size; ++k) out[k] += weight * input[k];
}

}  // namespace

void mix(std::span<const float> weights, std::span<const float* const> inputs, float* out, std::size_t size) {
  SHOAL_CHECK(weights.size() == inputs.size() && !inputs.empty());
  for (std::size_t begin = 0; begin < size; begin += kBlock) {
    const std::size_t count = std::min(kBlock, size - begin);
    scale(weights[0], inputs[0] + begin, out + begin, count);
    for (std::size_t j = 1; j < inputs.size(); ++j) add_scaled(weights[j], inputs[j] + begin, out + begin, count);
  }
}

}  // namespace shoal
