// A data set whose pixels tell which sample they are of: for tests of what is drawn.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trainer/data_set.h"

namespace shoal {

class SmallDataSet final : public DataSet {
 public:
  // Labels go round: sample i is of class i modulo `classes`.
  SmallDataSet(std::uint32_t train, std::uint32_t test, ImageShape shape = {1, 4, 4}, std::uint32_t classes = 10)
      : shape_(shape), classes_(classes), sizes_{train, test}, mean_(shape.channels, 0.5F), deviation_(shape.channels) {
    for (std::uint32_t channel = 0; channel < shape.channels; ++channel) {
      deviation_[channel] = 0.25F * static_cast<float>(channel + 1);
    }
    for (std::size_t split = 0; split < 2; ++split) {
      pixels_[split].resize(sizes_[split] * shape.pixels());
      for (std::size_t i = 0; i < pixels_[split].size(); ++i) {
        pixels_[split][i] = static_cast<std::uint8_t>(1 + (i * 7 + i / shape.pixels() * 13 + split) % 255);
      }
    }
  }

  ImageShape shape() const override { return shape_; }
  std::uint32_t classes() const override { return classes_; }
  std::uint32_t size(Split split) const override { return sizes_[at(split)]; }
  std::uint8_t label(Split, std::uint32_t index) const override { return static_cast<std::uint8_t>(index % classes_); }
  std::span<const std::uint8_t> image(Split split, std::uint32_t index) const override {
    return std::span(pixels_[at(split)]).subspan(index * shape_.pixels(), shape_.pixels());
  }
  std::uint64_t bytes() const override { return pixels_[0].size() + pixels_[1].size(); }
  std::span<const float> mean() const override { return mean_; }
  std::span<const float> deviation() const override { return deviation_; }

 private:
  static std::size_t at(Split split) { return split == Split::kTrain ? 0 : 1; }

  ImageShape shape_;
  std::uint32_t classes_;
  std::array<std::uint32_t, 2> sizes_;
  std::array<std::vector<std::uint8_t>, 2> pixels_;
  std::vector<float> mean_;
  std::vector<float> deviation_;
};

}  // namespace shoal
