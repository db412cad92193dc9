#include "trainer/population.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "pipeline/vector_clones.h"
#include "trainer/fixed_point.h"

namespace shoal {
namespace {

constexpr std::size_t kChunkFloats = 4096;
constexpr double kScale = 0x1p32;
constexpr double kFarthest = 512;  // with 2^22 nodes the sum stays below 2^63

struct ChunkSums {
  double squared_distance = 0;
  double squared_norm = 0;
  bool too_far = false;
};

// Eight partial sums in a fixed order: vectorised, and the same for every caller.
SHOAL_VECTOR_CLONES ChunkSums accumulate(const float* __restrict x, const float* __restrict reference,
                                         std::int64_t* __restrict sums, std::size_t size, std::int64_t sign) {
  constexpr std::size_t kLanes = 8;
  double distance[kLanes] = {};
  double norm[kLanes] = {};
  std::uint64_t too_far = 0;
  const auto take = [&](std::size_t k, std::size_t lane) {
    const double value = x[k];
    const double d = value - static_cast<double>(reference[k]);
    distance[lane] += d * d;
    norm[lane] += value * value;
    too_far |= static_cast<std::uint64_t>(!(std::abs(d) < kFarthest));
    const std::int64_t fixed = to_fixed_point(d * kScale);
    sums[k] += (fixed ^ sign) - sign;  // sign: 0 adds, -1 subtracts
  };
  const std::size_t whole = size / kLanes * kLanes;
  for (std::size_t k = 0; k < whole; k += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) take(k + lane, lane);
  }
  for (std::size_t k = whole; k < size; ++k) take(k, k - whole);
  ChunkSums result;
  result.too_far = too_far != 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    result.squared_distance += distance[lane];
    result.squared_norm += norm[lane];
  }
  return result;
}

}  // namespace

Population::Population(const NodeLayout& layout, std::vector<float> reference)
    : layout_(layout),
      reference_(std::move(reference)),
      sums_(layout.flat_size(), 0),
      layers_(layout.parameters().size()) {
  // Chunks follow the tensors, gaps included.
  for (std::size_t layer = 0; layer < layout.parameters().size(); ++layer) {
    const std::size_t begin = layout.parameters()[layer].offset / sizeof(float);
    const std::size_t end = layer + 1 < layout.parameters().size()
                                ? layout.parameters()[layer + 1].offset / sizeof(float)
                                : layout.flat_size();
    for (std::size_t at = begin; at < end; at += kChunkFloats) {
      chunks_.push_back({at, std::min(at + kChunkFloats, end), layer});
    }
  }
  chunk_mutexes_ = std::make_unique<std::mutex[]>(chunks_.size());
}

void Population::clear() {
  std::fill(sums_.begin(), sums_.end(), 0);
  std::fill(layers_.begin(), layers_.end(), Layer{});
  nodes_ = 0;
  too_far_ = false;
}

void Population::change(const float* parameters, int sign) {
  struct Figures {
    double squared_distance = 0;
    double squared_norm = 0;
  };
  thread_local std::vector<Figures> figures;
  figures.assign(layers_.size(), {});
  bool too_far = false;
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    const Chunk& chunk = chunks_[c];
    ChunkSums sums;
    {
      const std::scoped_lock lock(chunk_mutexes_[c]);
      sums = accumulate(parameters + chunk.begin, reference_.data() + chunk.begin, sums_.data() + chunk.begin,
                        chunk.end - chunk.begin, sign > 0 ? 0 : -1);
    }
    too_far |= sums.too_far;
    figures[chunk.layer].squared_distance += sums.squared_distance;
    figures[chunk.layer].squared_norm += sums.squared_norm;
  }
  const std::scoped_lock lock(mutex_);
  too_far_ |= too_far;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const double norm = std::sqrt(figures[layer].squared_norm);
    if (sign > 0) {
      layers_[layer].squared_distance.add(figures[layer].squared_distance);
      layers_[layer].norm.add(norm);
      layers_[layer].squared_norm.add(figures[layer].squared_norm);
    } else {
      layers_[layer].squared_distance.remove(figures[layer].squared_distance);
      layers_[layer].norm.remove(norm);
      layers_[layer].squared_norm.remove(figures[layer].squared_norm);
    }
  }
  nodes_ += static_cast<std::uint64_t>(sign);
}

std::vector<std::int64_t> Population::pack() const {
  std::vector<std::int64_t> numbers;
  numbers.reserve(sums_.size() + layers_.size() * 3 * FixedSum::kLimbs + 2);
  numbers = sums_;
  for (const Layer& layer : layers_) {
    for (const FixedSum* sum : {&layer.squared_distance, &layer.norm, &layer.squared_norm}) {
      const auto limbs = sum->limbs();
      numbers.insert(numbers.end(), limbs.begin(), limbs.end());
    }
  }
  numbers.push_back(static_cast<std::int64_t>(nodes_));
  numbers.push_back(too_far_ ? 1 : 0);
  return numbers;
}

void Population::unpack(std::span<const std::int64_t> numbers) {
  std::copy_n(numbers.begin(), sums_.size(), sums_.begin());
  std::size_t at = sums_.size();
  for (Layer& layer : layers_) {
    for (FixedSum* sum : {&layer.squared_distance, &layer.norm, &layer.squared_norm}) {
      *sum = FixedSum::from_limbs(numbers.subspan(at, FixedSum::kLimbs));
      at += FixedSum::kLimbs;
    }
  }
  nodes_ = static_cast<std::uint64_t>(numbers[at]);
  too_far_ = numbers[at + 1] != 0;
}

Spread Population::spread() const {
  Spread spread;
  spread.nodes = nodes_;
  const auto nodes = static_cast<double>(nodes_);
  std::vector<double> squared_mean(layers_.size(), 0);
  for (const Chunk& chunk : chunks_) {
    for (std::size_t k = chunk.begin; k < chunk.end; ++k) {
      const double mean = static_cast<double>(sums_[k]) / kScale / nodes;
      squared_mean[chunk.layer] += mean * mean;
    }
  }
  // The sums are of no use once a model has run away; norms are of each model alone.
  const double unknown = too_far_ ? std::numeric_limits<double>::quiet_NaN() : 0;
  double total = 0;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const double squared =
        std::max(layers_[layer].squared_distance.value() / nodes - squared_mean[layer], 0.0) + unknown;
    const double norm = layers_[layer].norm.value() / nodes;
    const double variance = layers_[layer].squared_norm.value() / nodes - norm * norm;
    total += squared;
    spread.layers.push_back({layout_.parameters()[layer].spec.name, std::sqrt(squared), norm,
                             norm > 0 ? std::sqrt(std::max(variance, 0.0)) / norm : norm});
  }
  spread.consensus_distance = std::sqrt(total);
  return spread;
}

std::vector<float> Population::mean() const {
  std::vector<float> mean(sums_.size());
  for (std::size_t k = 0; k < sums_.size(); ++k) {
    const double shift = static_cast<double>(sums_[k]) / kScale / static_cast<double>(nodes_);
    mean[k] = too_far_ ? std::numeric_limits<float>::quiet_NaN()
                       : static_cast<float>(static_cast<double>(reference_[k]) + shift);
  }
  return mean;
}

}  // namespace shoal
