// Counter-based randomness: Philox4x32-10 (Salmon et al. 2011), keyed by what the numbers are for.
//
// A stream is a pure function of (seed, purpose, node, step): there is no generator state to store or to share, and
// what a node draws does not depend on ranks, threads or order. Streams are cheap to make; each thread makes its own.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace shoal {

enum class Purpose : std::uint32_t {
  kGraph = 1,
  kInitialModel,
  kDataSet,
  kPartition,
  kBatch,
  kAugmentation,
  kSchedule,
  kEvaluation,
  kModelNoise,
  kOracle,
  kTest,
  kTensorLibrary,
};

constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

class RandomStream {
 public:
  using result_type = std::uint32_t;

  // The key is the seed; the counter holds the position in the stream, the node, the purpose and the step.
  RandomStream(std::uint64_t seed, Purpose purpose, std::uint32_t node = 0, std::uint64_t step = 0)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        counter_{0, node, static_cast<std::uint32_t>(purpose) ^ static_cast<std::uint32_t>(step >> 32) << 8,
                 static_cast<std::uint32_t>(step)} {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  result_type operator()() {
    if (used_ == 4) {
      block_ = philox(counter_, key_);
      ++counter_[0];
      used_ = 0;
    }
    return block_[used_++];
  }

  std::uint64_t bits64() {
    const std::uint64_t high = (*this)();
    return high << 32 | (*this)();
  }

  // Uniform in [0, bound), without bias (Lemire 2019); bound > 0.
  std::uint32_t below(std::uint32_t bound) {
    std::uint64_t product = std::uint64_t{(*this)()} * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      const std::uint32_t threshold = (0U - bound) % bound;
      while (static_cast<std::uint32_t>(product) < threshold) product = std::uint64_t{(*this)()} * bound;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

  double uniform() { return static_cast<double>(bits64() >> 11) * 0x1p-53; }  // [0, 1)
  float uniform_float() { return static_cast<float>((*this)() >> 8) * 0x1p-24f; }

  // Box-Muller; the second value of each pair is kept.
  double normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2 * std::log1p(-uniform()));
    const double angle = 2 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  unsigned used_ = 4;
  bool has_spare_ = false;
  double spare_ = 0;
};

}  // namespace shoal
