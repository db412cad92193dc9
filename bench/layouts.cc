#include "bench/layouts.h"

#include <fmt/format.h>

#include "store/error.h"
#include "store/size_text.h"

namespace shoal::bench {
namespace {

StateLayout lenet5_sgd() {
  constexpr std::int64_t kParameters = 61'706;
  return StateLayout({{"parameters", DType::kFloat32, {kParameters}, Part::kPublic},
                      {"momentum", DType::kFloat32, {kParameters}, Part::kPrivate},
                      {"steps", DType::kInt64, {}, Part::kPrivate}});
}

StateLayout resnet18_adam() {
  // The CIFAR form: 3x3 stem, ten classes. 20 batch norms over 4,800 channels have a mean, a variance and a count.
  constexpr std::int64_t kParameters = 11'173'962;
  return StateLayout({{"parameters", DType::kFloat32, {kParameters}, Part::kPublic},
                      {"running_statistics", DType::kFloat32, {2, 4'800}, Part::kPublic},
                      {"batches_tracked", DType::kInt64, {20}, Part::kPublic},
                      {"exp_avg", DType::kFloat32, {kParameters}, Part::kPrivate},
                      {"exp_avg_sq", DType::kFloat32, {kParameters}, Part::kPrivate},
                      {"steps", DType::kInt64, {}, Part::kPrivate}});
}

StateLayout of_sizes(std::string_view public_size, std::string_view private_size) {
  const std::uint64_t bytes[] = {parse_size(public_size), parse_size(private_size)};
  for (const std::uint64_t size : bytes) {
    if (size % 4 != 0) {
      throw Error(fmt::format("--layout: {} bytes are no whole number of fp32 values; give multiples of 4", size),
                  ExitCode::kUsage);
    }
  }
  std::vector<TensorSpec> tensors = {
      {"public", DType::kFloat32, {static_cast<std::int64_t>(bytes[0] / 4)}, Part::kPublic}};
  if (bytes[1] != 0) {
    tensors.push_back({"private", DType::kFloat32, {static_cast<std::int64_t>(bytes[1] / 4)}, Part::kPrivate});
  }
  return StateLayout(tensors);
}

}  // namespace

StateLayout parse_layout(std::string_view text) {
  if (text == "lenet5-sgd") return lenet5_sgd();
  if (text == "resnet18-adam") return resnet18_adam();
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    throw Error(fmt::format("there is no layout '{}'; choose from {}", text, kLayoutChoices), ExitCode::kUsage);
  }
  return of_sizes(text.substr(0, colon), text.substr(colon + 1));
}

}  // namespace shoal::bench
