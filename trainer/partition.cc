#include "trainer/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <vector>

#include "store/error.h"
#include "trainer/dirichlet.h"
#include "trainer/keyed_permutation.h"
#include "trainer/label_order.h"

namespace shoal {
namespace {

// Part `index` of `samples` cut into `parts` that differ by at most one; at least `least` long, running over the end.
struct Slice {
  std::uint64_t begin;
  std::uint32_t length;
};
Slice slice(std::uint32_t samples, std::uint64_t parts, std::uint64_t index, std::uint32_t least) {
  const std::uint64_t begin = index * samples / parts;
  const std::uint64_t end = (index + 1) * samples / parts;
  return {begin, std::max(static_cast<std::uint32_t>(end - begin), least)};
}

constexpr std::uint32_t kMostShards = 1000;  // per node; more is close to iid

class SharedPartition final : public Partition {
 public:
  explicit SharedPartition(std::uint32_t samples) : samples_(samples) {}

  using Partition::draw;
  std::uint32_t draw(NodeId, RandomStream& random) const override { return random.below(samples_); }
  std::uint32_t size(NodeId) const override { return samples_; }
  std::uint64_t bytes() const override { return sizeof(*this); }

 private:
  std::uint32_t samples_;
};

class IidPartition final : public Partition {
 public:
  IidPartition(std::uint32_t samples, NodeId nodes, std::uint64_t seed)
      : samples_(samples), nodes_(nodes), shuffle_(samples, RandomStream(seed, Purpose::kPartition)) {}

  using Partition::draw;
  std::uint32_t draw(NodeId node, RandomStream& random) const override {
    const Slice own = slice_of(node);
    return static_cast<std::uint32_t>(shuffle_((own.begin + random.below(own.length)) % samples_));
  }
  std::uint32_t size(NodeId node) const override { return slice_of(node).length; }
  std::uint64_t bytes() const override { return sizeof(*this); }

 private:
  // A model can learn something from 64 samples; from the fraction of one that would be its share it cannot.
  static constexpr std::uint32_t kLeast = 64;

  Slice slice_of(NodeId node) const {
    return slice(samples_, nodes_, node, nodes_ > samples_ ? std::min(kLeast, samples_) : 1);
  }

  std::uint32_t samples_;
  NodeId nodes_;
  KeyedPermutation shuffle_;
};

class ShardsPartition final : public Partition {
 public:
  ShardsPartition(const DataSet& data, NodeId nodes, std::uint32_t shards, std::uint64_t seed)
      : order_(data),
        shards_(shards),
        all_shards_(std::uint64_t{nodes} * shards),
        deal_(all_shards_, RandomStream(seed, Purpose::kPartition)) {}

  // Any of the node's shards: they are of one size, give or take a sample.
  using Partition::draw;
  std::uint32_t draw(NodeId node, RandomStream& random) const override {
    const Slice shard = shard_of(node, random.below(shards_));
    return order_.all()[shard.begin + random.below(shard.length)];
  }
  std::uint32_t size(NodeId node) const override {
    std::uint32_t total = 0;
    for (std::uint32_t i = 0; i < shards_; ++i) total += shard_of(node, i).length;
    return total;
  }
  std::uint64_t bytes() const override { return sizeof(*this) + order_.bytes(); }

 private:
  Slice shard_of(NodeId node, std::uint32_t which) const {
    return slice(static_cast<std::uint32_t>(order_.all().size()), all_shards_,
                 deal_(std::uint64_t{node} * shards_ + which), 1);
  }

  LabelOrder order_;
  std::uint32_t shards_;
  std::uint64_t all_shards_;
  KeyedPermutation deal_;
};

class DirichletPartition final : public Partition {
 public:
  DirichletPartition(const DataSet& data, double concentration, std::uint64_t seed)
      : order_(data), concentration_(concentration), seed_(seed) {
    for (std::uint32_t label = 0; label < data.classes(); ++label) {
      if (!order_.of(label).empty()) labels_.push_back(static_cast<std::uint8_t>(label));
    }
  }

  std::uint32_t draw(NodeId node, RandomStream& random) const override {
    std::uint32_t sample = 0;
    draw(node, random, {&sample, 1});
    return sample;
  }
  // The distribution takes a microsecond to work out: once a batch is nothing, and storing it would be 80 bytes a node.
  void draw(NodeId node, RandomStream& random, std::span<std::uint32_t> samples) const override {
    std::array<double, 256> weights;
    const std::span<double> used = std::span(weights).first(labels_.size());
    RandomStream own(seed_, Purpose::kPartition, node);
    draw_dirichlet(concentration_, own, used);
    for (std::uint32_t& sample : samples) {
      double left = random.uniform();
      std::size_t chosen = 0;
      while (chosen + 1 < used.size() && left >= used[chosen]) left -= used[chosen++];
      const std::span<const std::uint32_t> pool = order_.of(labels_[chosen]);
      sample = pool[random.below(static_cast<std::uint32_t>(pool.size()))];
    }
  }
  std::uint32_t size(NodeId) const override { return static_cast<std::uint32_t>(order_.all().size()); }
  std::uint64_t bytes() const override { return sizeof(*this) + order_.bytes() + labels_.capacity(); }

 private:
  LabelOrder order_;
  double concentration_;
  std::uint64_t seed_;
  std::vector<std::uint8_t> labels_;  // those that occur
};

template <typename Number>
Number parameter(const std::string& spec, std::string_view text, Number least, Number most) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !(value >= least && value <= most)) {
    throw Error(fmt::format("--partition {}: '{}' should be a number from {} to {}", spec, text, least, most),
                ExitCode::kUsage);
  }
  return value;
}

}  // namespace

std::unique_ptr<Partition> make_partition(const std::string& spec, const DataSet& data, NodeId nodes,
                                          std::uint64_t seed) {
  SHOAL_CHECK(nodes > 0);
  const std::uint32_t samples = data.size(Split::kTrain);
  const std::size_t colon = spec.find(':');
  const std::string_view name = std::string_view(spec).substr(0, colon);
  const std::string_view text = colon == std::string::npos ? "" : std::string_view(spec).substr(colon + 1);
  if (spec == "iid") return std::make_unique<IidPartition>(samples, nodes, seed);
  if (spec == "shared") return std::make_unique<SharedPartition>(samples);
  // Below 1e-4 a node has one label anyway, and above 1e6 all labels equally.
  if (name == "dirichlet") {
    return std::make_unique<DirichletPartition>(data, parameter(spec, text, 1e-4, 1e6), seed);
  }
  if (name == "shards") {
    return std::make_unique<ShardsPartition>(data, nodes, parameter(spec, text, 1U, std::min(samples, kMostShards)),
                                             seed);
  }
  throw Error(fmt::format("--partition {}: choose from {}", spec, partition_choices()), ExitCode::kUsage);
}

std::string partition_choices() {
  return "iid, shared, dirichlet:A (A > 0: smaller is more uneven), shards:S (S label-sorted pieces per node)";
}

}  // namespace shoal
