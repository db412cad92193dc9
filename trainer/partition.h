// Which training samples a node owns. A few numbers per node at most, no index lists: membership is computed.
// Immutable; shared between threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "store/types.h"
#include "trainer/data_set.h"
#include "trainer/random.h"

namespace shoal {

class Partition {
 public:
  virtual ~Partition() = default;

  // A training sample of the node's own, drawn with `random`.
  virtual std::uint32_t draw(NodeId node, RandomStream& random) const = 0;
  // The same as one draw after another, for partitions that work something out per node first.
  virtual void draw(NodeId node, RandomStream& random, std::span<std::uint32_t> samples) const {
    for (std::uint32_t& sample : samples) sample = draw(node, random);
  }
  virtual std::uint32_t size(NodeId node) const = 0;  // samples the node can draw
  virtual std::uint64_t bytes() const = 0;            // of memory
};

// iid: one shuffle of the training set, cut into `nodes` slices that are disjoint, cover it and differ by at most one
//   sample. With more nodes than samples a slice is 64 samples long (or all there are), and slices overlap.
// shared: every node draws from the whole set.
// dirichlet:A: a distribution over labels per node, drawn from Dirichlet(A) on the fly; then any sample of that label.
//   Smaller A, fewer labels per node. Nodes share samples.
// shards:S: the set sorted by label, cut into nodes x S shards, of which each node has S at random. With more shards
//   than samples a shard is one sample, and shards overlap.
std::unique_ptr<Partition> make_partition(const std::string& spec, const DataSet& data, NodeId nodes,
                                          std::uint64_t seed);
std::string partition_choices();  // for --help

}  // namespace shoal
