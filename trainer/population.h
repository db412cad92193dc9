// Sums over all nodes' parameters, kept up to date while the nodes are in RAM anyway: the mean model, the consensus
// distance and the spread of every layer, without another pass over the population.
//
// Sums are in fixed point (parameters to 2^-32, relative to a reference model), so they are exact: the same bits in any
// order and for any number of threads, and a node's old contribution can be taken out again. add() and remove() are
// thread-safe; the rest belongs between rounds.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "trainer/fixed_sum.h"
#include "trainer/node_layout.h"

namespace shoal {

struct LayerSpread {
  std::string name;
  double distance = 0;   // root of the mean over nodes of ||x_i - mean||^2, this tensor alone; NaN as Spread's
  double norm_mean = 0;  // of ||x_i||
  double norm_cv = 0;    // deviation of ||x_i|| over its mean
};

struct Spread {
  std::uint64_t nodes = 0;
  double consensus_distance = 0;  // root of the mean over nodes of ||x_i - mean||^2; NaN when a model has run away
  std::vector<LayerSpread> layers;
};

class Population {
 public:
  // Parameters far from the reference (512 and more) cannot be summed: see Spread.
  Population(const NodeLayout& layout, std::vector<float> reference);

  void clear();
  void add(const float* parameters) { change(parameters, 1); }
  void remove(const float* parameters) { change(parameters, -1); }

  std::uint64_t nodes() const { return nodes_; }
  // Other ranks' nodes: what one packs, added up number by number over all ranks, another unpacks.
  std::vector<std::int64_t> pack() const;
  void unpack(std::span<const std::int64_t> sums);
  Spread spread() const;
  std::vector<float> mean() const;
  static std::uint64_t bytes_for(std::size_t flat_size) { return flat_size * 12; }

 private:
  struct Layer {
    FixedSum squared_distance;  // to the reference
    FixedSum norm;
    FixedSum squared_norm;
  };
  struct Chunk {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t layer = 0;
  };
  void change(const float* parameters, int sign);

  const NodeLayout& layout_;
  std::vector<float> reference_;
  std::vector<std::int64_t> sums_;
  std::vector<Chunk> chunks_;
  std::unique_ptr<std::mutex[]> chunk_mutexes_;
  std::mutex mutex_;  // guards what follows
  std::vector<Layer> layers_;
  std::uint64_t nodes_ = 0;
  bool too_far_ = false;
};

}  // namespace shoal
