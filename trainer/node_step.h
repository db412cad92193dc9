// One node's step as a rule sees it.
//
// The pointers are frames of the store: a rule reads the inputs, and writes `next` and the private record in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "store/record_check.h"
#include "trainer/node_layout.h"

namespace shoal {

struct NodeStep {
  NodeId node = 0;
  std::uint64_t round = 0;
  unsigned local_steps = 0;
  double learning_rate = 0;
  const NodeLayout* layout = nullptr;

  // Parameters: inputs[0] is the node's own, as the others see it in this round; inputs[1 + k] is its k-th read's.
  std::span<const float* const> inputs;
  std::span<const std::byte* const> input_buffers;  // likewise: BatchNorm's and the like
  float* next = nullptr;                            // the node's own parameters after the round
  std::byte* next_buffers = nullptr;
  std::span<float* const> optimizer_slots;  // private
  std::span<float* const> algorithm_slots;  // private
  NodeScalars* scalars = nullptr;           // private
  std::span<float> weights;                 // scratch, one per input
  std::span<RecordCheck> checks;            // of the first inputs, for mix(); what a rule leaves of them is done later
  RecordCheck* private_check = nullptr;     // of the private record, for whoever changes it first

  double loss = 0;       // out: the mean of its local steps' losses
  bool trained = false;  // out
  std::string warning;   // out: what the user must know of it; the run's first is printed

  const float* current() const { return inputs[0]; }
  std::size_t flat_size() const { return layout->flat_size(); }
};

// next = current, buffers included.
void keep_own(NodeStep& step);

// next = the sum of weights[k] * inputs[k]. Buffers: the node's own, or with kAverage mixed likewise (float32 ones).
enum class BufferRule { kOwn, kAverage };
void mix_inputs(NodeStep& step, BufferRule buffers);

}  // namespace shoal
