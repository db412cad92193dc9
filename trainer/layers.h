// The tensors of the usual layers under PyTorch's names, in its order and with its default initial distributions:
// weights and biases of convolutions and linear layers uniform within 1 / sqrt(fan in), BatchNorm 1, 0, 0, 1.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/state_layout.h"

namespace shoal {

struct InitialValue {
  float value = 0;
  double spread = 0;  // uniform within +-spread around value
};

struct Layers {
  std::vector<TensorSpec> parameters;
  std::vector<InitialValue> initial;  // one for each parameter
  std::vector<TensorSpec> buffers;
  std::vector<float> initial_buffers;  // one value for all of each buffer

  enum class Bias { kNone, kYes };
  void add_convolution(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel, Bias bias);
  void add_linear(const std::string& name, std::int64_t in, std::int64_t out);
  void add_batch_norm(const std::string& name, std::int64_t channels);
};

}  // namespace shoal
