// mlp:784-128-10: linear layers with ReLU between them.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "store/error.h"
#include "trainer/model_kinds.h"
#include "trainer/torch_learner.h"

namespace shoal {
namespace {

class Mlp : public Network {
 public:
  explicit Mlp(const BoundTensors& tensors) : parameters_(tensors.parameters) {}

  at::Tensor logits(const at::Tensor& images, Phase) override {
    at::Tensor x = images.flatten(1);
    for (std::size_t i = 0; i < parameters_.size(); i += 2) {
      if (i != 0) x = x.relu();
      x = at::linear(x, parameters_[i], parameters_[i + 1]);
    }
    return x;
  }

 private:
  std::vector<at::Tensor> parameters_;
};

class MlpModel : public LayeredModel {
 public:
  MlpModel(Layers layers, const ModelOptions& options) : LayeredModel(std::move(layers), options) {}

  std::unique_ptr<Network> make_network(const BoundTensors& tensors) const override {
    return std::make_unique<Mlp>(tensors);
  }
};

std::vector<std::int64_t> parse_sizes(const std::string& spec) {
  std::vector<std::int64_t> sizes;
  std::string_view rest = spec;
  rest.remove_prefix(std::min(rest.size(), std::string_view("mlp:").size()));
  while (true) {
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    constexpr std::int64_t kWidest = 1 << 24;
    if (error != std::errc() || size < 1 || size > kWidest) break;
    sizes.push_back(size);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (rest.empty() && sizes.size() >= 2) return sizes;
    if (rest.empty() || rest.front() != '-') break;
    rest.remove_prefix(1);
  }
  throw Error(fmt::format("--model {}: write the sizes of its layers, for example mlp:784-128-10", spec),
              ExitCode::kUsage);
}

}  // namespace

std::unique_ptr<Model> make_mlp(const ModelOptions& options) {
  const std::vector<std::int64_t> sizes = parse_sizes(options.spec);
  const auto pixels = static_cast<std::int64_t>(options.data.image.pixels());
  const std::int64_t classes = options.data.classes;
  if (sizes.front() != pixels || sizes.back() != classes) {
    throw Error(
        fmt::format("--model {} does not fit the data, which has {} pixels and {} classes: the first size must be {} "
                    "and the last {}",
                    options.spec, pixels, classes, pixels, classes),
        ExitCode::kUsage);
  }
  Layers layers;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i)
    layers.add_linear(fmt::format("fc{}", i + 1), sizes[i], sizes[i + 1]);
  return std::make_unique<MlpModel>(std::move(layers), options);
}

}  // namespace shoal
