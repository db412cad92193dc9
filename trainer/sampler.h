// Mini-batches: what node i trains on in its step t is a function of (seed, i, t) alone. Thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "store/types.h"
#include "trainer/batch.h"
#include "trainer/data_set.h"
#include "trainer/keyed_permutation.h"
#include "trainer/partition.h"
#include "trainer/random.h"

namespace shoal {

// kFlipCrop: 4 pixels of black are put around the image, a piece of its size is cut out at random, and half of the
// pieces are mirrored.
enum class Augmentation { kNone, kFlipCrop };

// A pixel becomes (value - middle) x factor.
struct PixelScale {
  float middle = 0;
  float factor = 1;
};

class Sampler {
 public:
  // Both outlive the sampler.
  Sampler(const DataSet& data, const Partition& partition, std::uint32_t batch, Augmentation augmentation,
          std::uint64_t seed);

  // Allocates only while `batch` has not yet been as large.
  void draw(NodeId node, std::uint64_t step, Batch& batch) const;
  // Test images first .. first + count of a fixed shuffle of the test set, so that any prefix is a fair sample.
  void test_batch(std::uint32_t first, std::uint32_t count, Batch& batch) const;
  std::uint32_t test_size() const;

 private:
  // The images and labels of batch.samples; cut at random unless `cuts` is null.
  void fill(Split split, RandomStream* cuts, Batch& batch) const;

  const DataSet& data_;
  const Partition& partition_;
  std::uint32_t batch_;
  Augmentation augmentation_;
  std::uint64_t seed_;
  KeyedPermutation test_order_;
  std::vector<PixelScale> scales_;  // one a channel
};

}  // namespace shoal
