// A mini-batch in host memory, filled by the Sampler and read by the model. One per worker, reused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shoal {

struct ImageShape {
  std::uint32_t channels = 0;
  std::uint32_t height = 0;
  std::uint32_t width = 0;

  constexpr std::size_t pixels() const { return std::size_t{channels} * height * width; }
  bool operator==(const ImageShape&) const = default;
};

struct Batch {
  std::size_t size = 0;
  std::vector<float> images;  // size x channels x height x width, normalised
  std::vector<std::int64_t> labels;
  std::vector<std::uint32_t> samples;  // which images of the split they are, before augmentation
};

}  // namespace shoal
