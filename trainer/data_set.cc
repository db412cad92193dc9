#include "trainer/data_set.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "store/error.h"
#include "trainer/cifar_file.h"
#include "trainer/idx_file.h"
#include "trainer/labelled_images.h"
#include "trainer/synthetic_data.h"

namespace shoal {
namespace {

constexpr std::uint32_t kDigitTrainImages = 40'000;
constexpr std::uint32_t kDigitTestImages = 10'000;
constexpr std::uint32_t kSignTrainImages = 20'000;
constexpr std::uint32_t kSignTestImages = 4'000;

class LoadedDataSet final : public DataSet {
 public:
  LoadedDataSet(LabelledImages train, LabelledImages test, std::uint32_t classes)
      : splits_{std::move(train), std::move(test)}, classes_(classes) {
    // Sums of integers: the same on every machine, whatever the compiler does with the loop.
    const LabelledImages& images = of(Split::kTrain);
    const std::size_t plane = images.shape.pixels() / images.shape.channels;
    const double pixels = static_cast<double>(plane) * static_cast<double>(images.labels.size());
    for (std::size_t channel = 0; channel < images.shape.channels; ++channel) {
      std::uint64_t sum = 0;
      std::uint64_t squares = 0;
      for (std::size_t i = channel * plane; i < images.pixels.size(); i += images.shape.pixels()) {
        std::uint32_t part = 0;
        std::uint32_t part_squares = 0;
        for (std::size_t p = i; p < i + plane; ++p) {
          part += images.pixels[p];
          part_squares += std::uint32_t{images.pixels[p]} * images.pixels[p];
        }
        sum += part;
        squares += part_squares;
      }
      const double mean = static_cast<double>(sum) / pixels;
      const double variance = static_cast<double>(squares) / pixels - mean * mean;
      mean_.push_back(static_cast<float>(mean / 255));
      // A channel of one value everywhere has nothing to be scaled.
      deviation_.push_back(variance > 1e-6 ? static_cast<float>(std::sqrt(variance) / 255) : 1.0F);
    }
  }

  ImageShape shape() const override { return of(Split::kTrain).shape; }
  std::uint32_t classes() const override { return classes_; }
  std::uint32_t size(Split split) const override { return static_cast<std::uint32_t>(of(split).labels.size()); }
  std::uint8_t label(Split split, std::uint32_t index) const override { return of(split).labels[index]; }
  std::span<const std::uint8_t> image(Split split, std::uint32_t index) const override {
    const std::size_t pixels = of(split).shape.pixels();
    return std::span(of(split).pixels).subspan(index * pixels, pixels);
  }
  std::uint64_t bytes() const override {
    std::uint64_t total = 0;
    for (const LabelledImages& split : splits_) total += split.pixels.capacity() + split.labels.capacity();
    return total;
  }
  std::span<const float> mean() const override { return mean_; }
  std::span<const float> deviation() const override { return deviation_; }

 private:
  const LabelledImages& of(Split split) const { return splits_[split == Split::kTrain ? 0 : 1]; }

  std::array<LabelledImages, 2> splits_;
  std::uint32_t classes_;
  std::vector<float> mean_;
  std::vector<float> deviation_;
};

using Read = LabelledImages (*)(const std::string& where, std::uint64_t seed, Split split);

struct Choice {
  std::string_view name;
  std::string_view help;
  bool has_directory;
  DataSetShape shape;
  Read read;
};

constexpr std::array<Choice, 4> kChoices = {{
    {"synthetic-mnist",
     "synthetic-mnist (generated)",
     false,
     {kSyntheticDigitShape, kSyntheticClasses},
     [](const std::string&, std::uint64_t seed, Split split) {
       return synthetic_digits(seed, split, split == Split::kTrain ? kDigitTrainImages : kDigitTestImages);
     }},
    {"synthetic-cifar10",
     "synthetic-cifar10 (generated)",
     false,
     {kSyntheticSignShape, kSyntheticClasses},
     [](const std::string&, std::uint64_t seed, Split split) {
       return synthetic_signs(seed, split, split == Split::kTrain ? kSignTrainImages : kSignTestImages);
     }},
    {"mnist",
     "mnist:DIR (IDX files, plain or .gz)",
     true,
     {kMnistShape, kMnistClasses},
     [](const std::string& where, std::uint64_t, Split split) { return read_mnist(where, split); }},
    {"cifar10",
     "cifar10:DIR (binary batches)",
     true,
     {kCifarShape, kCifarClasses},
     [](const std::string& where, std::uint64_t, Split split) { return read_cifar10(where, split); }},
}};

struct Chosen {
  const Choice* choice;
  std::string directory;
};

Chosen choose(const std::string& spec) {
  const std::size_t colon = spec.find(':');
  const std::string_view name = std::string_view(spec).substr(0, colon);
  for (const Choice& choice : kChoices) {
    if (choice.name != name) continue;
    const std::string directory = colon == std::string::npos ? "" : spec.substr(colon + 1);
    if (choice.has_directory && directory.empty()) {
      throw Error(fmt::format("--data {}: the directory is missing; write {}:DIR", spec, name), ExitCode::kUsage);
    }
    if (!choice.has_directory && colon != std::string::npos) {
      throw Error(fmt::format("--data {}: {} is generated and takes no directory", spec, name), ExitCode::kUsage);
    }
    return {&choice, directory};
  }
  throw Error(fmt::format("--data {}: choose from {}", spec, data_set_choices()), ExitCode::kUsage);
}

}  // namespace

std::unique_ptr<DataSet> open_data_set(const std::string& spec, std::uint64_t seed) {
  const auto [choice, directory] = choose(spec);
  LabelledImages train = choice->read(directory, seed, Split::kTrain);
  LabelledImages test = choice->read(directory, seed, Split::kTest);
  return std::make_unique<LoadedDataSet>(std::move(train), std::move(test), choice->shape.classes);
}

DataSetShape data_set_shape(const std::string& spec) { return choose(spec).choice->shape; }

std::string data_set_choices() {
  std::string text;
  for (const Choice& choice : kChoices) {
    if (!text.empty()) text += ", ";
    text += choice.help;
  }
  return text;
}

}  // namespace shoal
