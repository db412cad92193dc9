#include "trainer/layers.h"

#include <cmath>

namespace shoal {

void Layers::add_convolution(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel,
                             Bias bias) {
  const double spread = 1 / std::sqrt(static_cast<double>(in * kernel * kernel));
  parameters.push_back({name + ".weight", DType::kFloat32, {out, in, kernel, kernel}, Part::kPublic});
  initial.push_back({0, spread});
  if (bias == Bias::kNone) return;
  parameters.push_back({name + ".bias", DType::kFloat32, {out}, Part::kPublic});
  initial.push_back({0, spread});
}

void Layers::add_linear(const std::string& name, std::int64_t in, std::int64_t out) {
  const double spread = 1 / std::sqrt(static_cast<double>(in));
  parameters.push_back({name + ".weight", DType::kFloat32, {out, in}, Part::kPublic});
  initial.push_back({0, spread});
  parameters.push_back({name + ".bias", DType::kFloat32, {out}, Part::kPublic});
  initial.push_back({0, spread});
}

void Layers::add_batch_norm(const std::string& name, std::int64_t channels) {
  parameters.push_back({name + ".weight", DType::kFloat32, {channels}, Part::kPublic});
  initial.push_back({1, 0});
  parameters.push_back({name + ".bias", DType::kFloat32, {channels}, Part::kPublic});
  initial.push_back({0, 0});
  buffers.push_back({name + ".running_mean", DType::kFloat32, {channels}, Part::kPublic});
  initial_buffers.push_back(0);
  buffers.push_back({name + ".running_var", DType::kFloat32, {channels}, Part::kPublic});
  initial_buffers.push_back(1);
  buffers.push_back({name + ".num_batches_tracked", DType::kInt64, {}, Part::kPublic});
  initial_buffers.push_back(0);
}

}  // namespace shoal
