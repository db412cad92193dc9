#include "trainer/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "store/error.h"
#include "tests/trainer/small_data_set.h"
#include "trainer/dirichlet.h"
#include "trainer/keyed_permutation.h"

namespace shoal {
namespace {

constexpr std::uint64_t kSeed = 42;

std::set<std::uint32_t> owned(const Partition& partition, NodeId node, std::uint32_t draws) {
  RandomStream random(kSeed, Purpose::kTest, node);
  std::set<std::uint32_t> samples;
  for (std::uint32_t i = 0; i < draws; ++i) samples.insert(partition.draw(node, random));
  return samples;
}

std::vector<double> label_shares(const Partition& partition, const DataSet& data, NodeId node, int draws = 500) {
  RandomStream random(kSeed, Purpose::kTest, node);
  std::vector<std::uint32_t> samples(static_cast<std::size_t>(draws));
  partition.draw(node, random, samples);
  std::vector<double> shares(data.classes());
  for (const std::uint32_t sample : samples) shares[data.label(Split::kTrain, sample)] += 1.0 / draws;
  return shares;
}

double mean_entropy(const std::string& spec, const DataSet& data, NodeId nodes) {
  const auto partition = make_partition(spec, data, nodes, kSeed);
  double entropy = 0;
  for (NodeId node = 0; node < nodes; ++node) {
    for (const double share : label_shares(*partition, data, node)) {
      if (share > 0) entropy -= share * std::log(share) / nodes;
    }
  }
  return entropy;
}

TEST(KeyedPermutation, HitsEveryNumberOnce) {
  for (const std::uint64_t size : {1, 2, 3, 15, 16, 17, 1000, 4097}) {
    const KeyedPermutation permutation(size, RandomStream(kSeed, Purpose::kTest));
    std::vector<std::uint64_t> images;
    for (std::uint64_t i = 0; i < size; ++i) images.push_back(permutation(i));
    std::sort(images.begin(), images.end());
    for (std::uint64_t i = 0; i < size; ++i) ASSERT_EQ(images[i], i) << size;
  }
}

TEST(KeyedPermutation, SpreadsNeighboursAndFollowsItsKey) {
  constexpr std::uint64_t kSize = 10'000;
  const KeyedPermutation one(kSize, RandomStream(1, Purpose::kTest));
  const KeyedPermutation two(kSize, RandomStream(2, Purpose::kTest));
  double distance = 0;
  int same = 0;
  for (std::uint64_t i = 0; i + 1 < kSize; ++i) {
    distance += std::abs(static_cast<double>(one(i)) - static_cast<double>(one(i + 1))) / kSize;
    same += one(i) == two(i) ? 1 : 0;
  }
  EXPECT_NEAR(distance, kSize / 3.0, kSize / 30.0);  // two random places are a third of the range apart
  EXPECT_LT(same, 10);
}

TEST(IidPartition, DealsEverySampleToExactlyOneNode) {
  for (const NodeId nodes : {1, 4, 7, 25, 100}) {
    const SmallDataSet data(100, 1);
    const auto partition = make_partition("iid", data, nodes, kSeed);
    std::multiset<std::uint32_t> dealt;
    for (NodeId node = 0; node < nodes; ++node) {
      const std::set<std::uint32_t> own = owned(*partition, node, 2000);
      EXPECT_EQ(own.size(), partition->size(node));
      EXPECT_LE(std::abs(static_cast<int>(own.size()) - static_cast<int>(100 / nodes)), 1);
      dealt.insert(own.begin(), own.end());
    }
    EXPECT_EQ(dealt.size(), 100u) << nodes;
    EXPECT_EQ(std::set<std::uint32_t>(dealt.begin(), dealt.end()).size(), 100u) << nodes;
  }
}

TEST(IidPartition, GivesEveryNodeSomethingToLearnFromWhenThereAreMoreNodesThanSamples) {
  const SmallDataSet data(100, 1);
  const auto partition = make_partition("iid", data, 1'000'000, kSeed);
  for (const NodeId node : {0U, 1U, 500'000U, 999'999U}) {
    EXPECT_EQ(partition->size(node), 64u);
    EXPECT_EQ(owned(*partition, node, 2000).size(), 64u);
  }
  const SmallDataSet few(20, 1);
  EXPECT_EQ(make_partition("iid", few, 21, kSeed)->size(20), 20u);
}

TEST(SharedPartition, LetsEveryNodeDrawEverything) {
  const SmallDataSet data(50, 1);
  const auto partition = make_partition("shared", data, 1000, kSeed);
  for (const NodeId node : {0U, 999U}) EXPECT_EQ(owned(*partition, node, 2000).size(), 50u);
}

TEST(ShardsPartition, DealsEverySampleToExactlyOneNode) {
  const SmallDataSet data(1000, 1);
  const auto partition = make_partition("shards:2", data, 20, kSeed);
  std::multiset<std::uint32_t> dealt;
  for (NodeId node = 0; node < 20; ++node) {
    const std::set<std::uint32_t> own = owned(*partition, node, 2000);
    EXPECT_EQ(own.size(), partition->size(node));
    dealt.insert(own.begin(), own.end());
  }
  EXPECT_EQ(dealt.size(), 1000u);
  EXPECT_EQ(std::set<std::uint32_t>(dealt.begin(), dealt.end()).size(), 1000u);
}

TEST(ShardsPartition, ShowsANodeAboutAsManyClassesAsItHasShards) {
  const SmallDataSet data(10'000, 1);
  for (const auto& [spec, most] : std::map<std::string, int>{{"shards:1", 1}, {"shards:2", 2}}) {
    const auto partition = make_partition(spec, data, 100, kSeed);
    for (NodeId node = 0; node < 100; ++node) {
      const std::vector<double> shares = label_shares(*partition, data, node);
      const auto classes = std::count_if(shares.begin(), shares.end(), [](double share) { return share > 0; });
      EXPECT_GE(classes, 1);
      EXPECT_LE(classes, most) << spec << " of node " << node;
    }
  }
}

TEST(ShardsPartition, WorksWithMoreShardsThanSamples) {
  const SmallDataSet data(100, 1);
  const auto partition = make_partition("shards:3", data, 100'000, kSeed);
  for (const NodeId node : {0U, 77'777U, 99'999U}) {
    EXPECT_EQ(partition->size(node), 3u);
    const std::set<std::uint32_t> own = owned(*partition, node, 200);
    EXPECT_GE(own.size(), 1u);
    EXPECT_LE(own.size(), 3u);
  }
}

TEST(DirichletPartition, IsMoreEvenTheLargerItsParameter) {
  const SmallDataSet data(1000, 1);
  double last = -0.01;
  for (const char* spec : {"dirichlet:0.0001", "dirichlet:0.05", "dirichlet:0.3", "dirichlet:1", "dirichlet:10"}) {
    const double entropy = mean_entropy(spec, data, 100);
    EXPECT_GT(entropy, last) << spec;
    last = entropy;
  }
  EXPECT_NEAR(mean_entropy("dirichlet:1e6", data, 20), mean_entropy("shared", data, 20), 0.02);
  EXPECT_NEAR(mean_entropy("dirichlet:0.0001", data, 100), 0, 0.02);
}

TEST(DirichletPartition, HasNoFavouriteLabel) {
  const SmallDataSet data(1000, 1);
  const auto partition = make_partition("dirichlet:0.5", data, 2000, kSeed);
  std::vector<double> total(data.classes());
  for (NodeId node = 0; node < 2000; ++node) {
    const std::vector<double> shares = label_shares(*partition, data, node, 50);
    for (std::size_t label = 0; label < total.size(); ++label) total[label] += shares[label] / 2000;
  }
  for (const double share : total) EXPECT_NEAR(share, 0.1, 0.02);
}

TEST(DirichletPartition, LeavesOutLabelsThatNoSampleHas) {
  const SmallDataSet data(3, 1);  // labels 0, 1 and 2 of 10
  const auto partition = make_partition("dirichlet:1", data, 50, kSeed);
  for (NodeId node = 0; node < 50; ++node) {
    for (const std::uint32_t sample : owned(*partition, node, 20)) EXPECT_LT(sample, 3u);
  }
}

TEST(Dirichlet, GammaVariatesHaveTheirMeanAndVariance) {
  for (const double shape : {0.3, 1.0, 4.0}) {
    RandomStream random(kSeed, Purpose::kTest);
    constexpr int kDraws = 100'000;
    double mean = 0;
    double squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double g = std::exp(log_gamma_variate(shape, random));
      mean += g / kDraws;
      squares += g * g / kDraws;
    }
    EXPECT_NEAR(mean, shape, 0.03 * std::max(1.0, shape)) << shape;
    EXPECT_NEAR(squares - mean * mean, shape, 0.06 * std::max(1.0, shape)) << shape;
  }
}

TEST(Partition, DrawsABatchAsItDrawsOneByOne) {
  const SmallDataSet data(1000, 1);
  for (const char* spec : {"iid", "shared", "dirichlet:0.3", "shards:2"}) {
    const auto partition = make_partition(spec, data, 10, kSeed);
    RandomStream together(1, Purpose::kTest);
    RandomStream apart(1, Purpose::kTest);
    std::vector<std::uint32_t> batch(50);
    partition->draw(7, together, batch);
    for (const std::uint32_t sample : batch) ASSERT_EQ(sample, partition->draw(7, apart)) << spec;
  }
}

TEST(Partition, FollowsTheSeedAndKeepsNothingPerNode) {
  const SmallDataSet data(1000, 1);
  for (const char* spec : {"iid", "dirichlet:0.1", "shards:2"}) {
    const auto one = make_partition(spec, data, 10, 1);
    const auto two = make_partition(spec, data, 10, 2);
    EXPECT_NE(owned(*one, 3, 200), owned(*two, 3, 200)) << spec;
    EXPECT_EQ(owned(*one, 3, 200), owned(*make_partition(spec, data, 10, 1), 3, 200)) << spec;
    EXPECT_EQ(one->bytes(), make_partition(spec, data, 10'000'000, 1)->bytes()) << spec;
  }
}

TEST(Partition, RefusesWhatItDoesNotKnowAndSaysWhatItDoes) {
  const SmallDataSet data(100, 1);
  for (const std::string spec :
       {"", "IID", "iid:3", "shared:", "dirichlet", "dirichlet:", "dirichlet:0", "dirichlet:-1", "dirichlet:nan",
        "dirichlet:inf", "dirichlet:1x", "shards", "shards:0", "shards:-2", "shards:1.5", "shards:101"}) {
    try {
      make_partition(spec, data, 10, kSeed);
      ADD_FAILURE() << "'" << spec << "' was taken for a partition";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
      EXPECT_THAT(error.what(), testing::StartsWith("--partition " + spec + ": "));
    }
  }
}

}  // namespace
}  // namespace shoal
