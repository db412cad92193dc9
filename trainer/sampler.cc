#include "trainer/sampler.h"

#include <algorithm>
#include <cstddef>

#include "store/error.h"
#include "trainer/random.h"

namespace shoal {
namespace {

// Twice as fast as a table of the 256 values (25 us against 59 for 64 MNIST images), because it vectorises. Nothing
// here can be fused, so the bits do not depend on the instruction set.
float normalise(std::uint8_t pixel, PixelScale scale) {
  return (static_cast<float>(pixel) - scale.middle) * scale.factor;
}

void normalise(std::span<const std::uint8_t> pixels, PixelScale scale, float* out) {
  for (std::size_t i = 0; i < pixels.size(); ++i) out[i] = normalise(pixels[i], scale);
}

// How one image is cut and mirrored; the same in all its channels.
struct Cut {
  static constexpr int kMargin = 4;

  Cut() = default;
  explicit Cut(RandomStream& random)
      : down(static_cast<int>(random.below(2 * kMargin + 1)) - kMargin),
        right(static_cast<int>(random.below(2 * kMargin + 1)) - kMargin),
        mirrored(random.below(2) == 1) {}

  int down = 0;
  int right = 0;
  bool mirrored = false;
};

void normalise_cut(std::span<const std::uint8_t> plane, int height, int width, const Cut& cut, PixelScale scale,
                   float* out) {
  for (int y = 0; y < height; ++y, out += width) {
    std::fill_n(out, width, normalise(0, scale));
    const int from = y + cut.down;
    if (from < 0 || from >= height) continue;
    const int first = std::max(0, -cut.right);
    const int last = std::min(width, width - cut.right);
    const auto row = plane.subspan(static_cast<std::size_t>(from * width + first + cut.right),
                                   static_cast<std::size_t>(last - first));
    normalise(row, scale, out + first);
    if (cut.mirrored) std::reverse(out, out + width);
  }
}

}  // namespace

Sampler::Sampler(const DataSet& data, const Partition& partition, std::uint32_t batch, Augmentation augmentation,
                 std::uint64_t seed)
    : data_(data),
      partition_(partition),
      batch_(batch),
      augmentation_(augmentation),
      seed_(seed),
      test_order_(data.size(Split::kTest), RandomStream(seed, Purpose::kEvaluation)),
      scales_(data.shape().channels) {
  SHOAL_CHECK(batch > 0);
  for (std::size_t channel = 0; channel < scales_.size(); ++channel) {
    scales_[channel] = {255 * data.mean()[channel], 1 / (255 * data.deviation()[channel])};
  }
}

void Sampler::draw(NodeId node, std::uint64_t step, Batch& batch) const {
  batch.samples.resize(batch_);
  RandomStream random(seed_, Purpose::kBatch, node, step);
  partition_.draw(node, random, batch.samples);
  RandomStream cuts(seed_, Purpose::kAugmentation, node, step);
  fill(Split::kTrain, augmentation_ == Augmentation::kNone ? nullptr : &cuts, batch);
}

void Sampler::test_batch(std::uint32_t first, std::uint32_t count, Batch& batch) const {
  SHOAL_CHECK(first <= test_size() && count <= test_size() - first);
  batch.samples.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) batch.samples[i] = static_cast<std::uint32_t>(test_order_(first + i));
  fill(Split::kTest, nullptr, batch);
}

std::uint32_t Sampler::test_size() const { return data_.size(Split::kTest); }

void Sampler::fill(Split split, RandomStream* cuts, Batch& batch) const {
  const ImageShape shape = data_.shape();
  const std::size_t plane = std::size_t{shape.height} * shape.width;
  batch.size = batch.samples.size();
  batch.images.resize(batch.size * shape.pixels());
  batch.labels.resize(batch.size);
  float* out = batch.images.data();
  for (std::size_t i = 0; i < batch.size; ++i) {
    batch.labels[i] = data_.label(split, batch.samples[i]);
    const std::span<const std::uint8_t> image = data_.image(split, batch.samples[i]);
    const Cut cut = cuts != nullptr ? Cut(*cuts) : Cut();
    for (std::size_t channel = 0; channel < shape.channels; ++channel, out += plane) {
      const std::span<const std::uint8_t> pixels = image.subspan(channel * plane, plane);
      if (cuts == nullptr) {
        normalise(pixels, scales_[channel], out);
      } else {
        normalise_cut(pixels, static_cast<int>(shape.height), static_cast<int>(shape.width), cut, scales_[channel],
                      out);
      }
    }
  }
}

}  // namespace shoal
