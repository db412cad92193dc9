#include "trainer/node_step.h"

#include <cstring>

#include "pipeline/mix.h"

namespace shoal {

void keep_own(NodeStep& step) {
  std::memcpy(step.next, step.current(), step.flat_size() * sizeof(float));
  std::memcpy(step.next_buffers, step.input_buffers[0], step.layout->buffers_bytes());
}

void mix_inputs(NodeStep& step, BufferRule buffers) {
  mix(step.weights, step.inputs, step.next, step.flat_size(), step.checks);
  std::memcpy(step.next_buffers, step.input_buffers[0], step.layout->buffers_bytes());
  if (buffers == BufferRule::kOwn) return;
  const std::uint64_t base = step.layout->buffers().empty() ? 0 : step.layout->buffers().front().offset;
  for (const TensorPlace& buffer : step.layout->buffers()) {
    if (buffer.spec.dtype != DType::kFloat32) continue;
    const std::uint64_t offset = buffer.offset - base;
    auto* out = reinterpret_cast<float*>(step.next_buffers + offset);
    // Small (a few per cent of a model), so one element after the other will do.
    for (std::size_t i = 0; i < buffer.bytes / sizeof(float); ++i) {
      float sum = 0;
      for (std::size_t k = 0; k < step.inputs.size(); ++k) {
        sum += step.weights[k] * reinterpret_cast<const float*>(step.input_buffers[k] + offset)[i];
      }
      out[i] = sum;
    }
  }
}

}  // namespace shoal
