#include "trainer/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/store/counted_allocations.h"
#include "tests/trainer/small_data_set.h"

namespace shoal {
namespace {

constexpr std::uint64_t kSeed = 42;
constexpr float kTolerance = 1e-5F;  // two neighbouring pixel values are 0.005 apart or more
constexpr ImageShape kShape = {3, 8, 8};

class SamplerTest : public ::testing::Test {
 protected:
  Sampler sampler(Augmentation augmentation = Augmentation::kNone, std::uint64_t seed = kSeed) const {
    return Sampler(data_, *partition_, 16, augmentation, seed);
  }
  float normalised(std::size_t channel, std::uint8_t pixel) const {
    return (static_cast<float>(pixel) / 255 - data_.mean()[channel]) / data_.deviation()[channel];
  }

  SmallDataSet data_{200, 50, kShape};
  std::unique_ptr<Partition> partition_ = make_partition("shared", data_, 10, kSeed);
};

TEST_F(SamplerTest, NormalisesEveryPixelByItsChannel) {
  Batch batch;
  sampler().draw(3, 5, batch);
  ASSERT_EQ(batch.size, 16u);
  ASSERT_EQ(batch.images.size(), 16 * kShape.pixels());
  for (std::size_t i = 0; i < batch.size; ++i) {
    EXPECT_EQ(batch.labels[i], data_.label(Split::kTrain, batch.samples[i]));
    const auto image = data_.image(Split::kTrain, batch.samples[i]);
    for (std::size_t p = 0; p < image.size(); ++p) {
      ASSERT_NEAR(batch.images[i * kShape.pixels() + p], normalised(p / 64, image[p]), kTolerance);
    }
  }
}

TEST_F(SamplerTest, DrawsTheSameBatchForTheSameKeyInAnyThreadAndOrder) {
  const Sampler shared = sampler(Augmentation::kFlipCrop);
  std::vector<Batch> forward(20);
  std::vector<Batch> backward(20);
  std::thread one([&] {
    for (std::size_t i = 0; i < 20; ++i) shared.draw(static_cast<NodeId>(i % 4), i / 4, forward[i]);
  });
  std::thread two([&] {
    for (std::size_t i = 20; i-- > 0;) shared.draw(static_cast<NodeId>(i % 4), i / 4, backward[i]);
  });
  one.join();
  two.join();
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(forward[i].images, backward[i].images);
    EXPECT_EQ(forward[i].labels, backward[i].labels);
  }
}

TEST_F(SamplerTest, DrawsAnotherBatchForEveryNodeStepAndSeed) {
  std::set<std::vector<std::uint32_t>> batches;
  Batch batch;
  for (const std::uint64_t seed : {1, 2}) {
    for (NodeId node = 0; node < 5; ++node) {
      for (std::uint64_t step = 0; step < 5; ++step) {
        sampler(Augmentation::kNone, seed).draw(node, step, batch);
        batches.insert(batch.samples);
      }
    }
  }
  EXPECT_EQ(batches.size(), 50u);
}

// Every augmented image is the original, moved by at most 4 pixels, perhaps mirrored, with black where it moved away.
TEST_F(SamplerTest, CutsAndMirrorsWithoutChangingShapeOrSample) {
  const Sampler plain = sampler();
  const Sampler augmented = sampler(Augmentation::kFlipCrop);
  Batch expected;
  Batch batch;
  std::set<std::tuple<int, int, bool>> seen;
  for (std::uint64_t step = 0; step < 40; ++step) {
    plain.draw(1, step, expected);
    augmented.draw(1, step, batch);
    ASSERT_EQ(batch.samples, expected.samples);
    ASSERT_EQ(batch.labels, expected.labels);
    ASSERT_EQ(batch.images.size(), expected.images.size());
    for (std::size_t i = 0; i < batch.size; ++i) {
      const auto image = data_.image(Split::kTrain, batch.samples[i]);
      const auto matches = [&](int down, int right, bool mirrored) {
        for (int p = 0; p < static_cast<int>(kShape.pixels()); ++p) {
          const int y = p / 8 % 8 + down;
          const int x = (mirrored ? 7 - p % 8 : p % 8) + right;
          const bool inside = y >= 0 && y < 8 && x >= 0 && x < 8;
          const int from = p / 64 * 64 + y * 8 + x;
          const std::uint8_t pixel = inside ? image[static_cast<std::size_t>(from)] : std::uint8_t{0};
          const float value = batch.images[i * kShape.pixels() + static_cast<std::size_t>(p)];
          if (std::abs(value - normalised(static_cast<std::size_t>(p / 64), pixel)) > kTolerance) return false;
        }
        return true;
      };
      int found = 0;
      for (int down = -4; down <= 4; ++down) {
        for (int right = -4; right <= 4; ++right) {
          for (const bool mirrored : {false, true}) {
            if (!matches(down, right, mirrored)) continue;
            ++found;
            seen.insert({down, right, mirrored});
          }
        }
      }
      ASSERT_EQ(found, 1) << "image " << i << " of step " << step;
    }
  }
  EXPECT_GT(seen.size(), 150u);  // of 9 x 9 x 2
}

TEST_F(SamplerTest, GoesThroughTheTestSetOnceInAFixedShuffledOrder) {
  const Sampler source = sampler(Augmentation::kFlipCrop);
  ASSERT_EQ(source.test_size(), 50u);
  Batch whole;
  Batch part;
  source.test_batch(0, 50, whole);
  std::vector<std::uint32_t> sorted = whole.samples;
  EXPECT_FALSE(std::is_sorted(sorted.begin(), sorted.end()));
  std::sort(sorted.begin(), sorted.end());
  for (std::uint32_t i = 0; i < 50; ++i) EXPECT_EQ(sorted[i], i);

  source.test_batch(20, 10, part);
  ASSERT_EQ(part.size, 10u);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(part.labels[i], whole.labels[20 + i]);
    const auto image = data_.image(Split::kTest, part.samples[i]);
    EXPECT_NEAR(part.images[i * kShape.pixels()], normalised(0, image[0]), kTolerance);
    EXPECT_TRUE(std::equal(part.images.begin() + static_cast<std::ptrdiff_t>(i * kShape.pixels()),
                           part.images.begin() + static_cast<std::ptrdiff_t>((i + 1) * kShape.pixels()),
                           whole.images.begin() + static_cast<std::ptrdiff_t>((20 + i) * kShape.pixels())));
  }
}

TEST_F(SamplerTest, AllocatesNothingAfterTheFirstBatch) {
  for (const char* spec : {"iid", "shared", "dirichlet:0.3", "shards:2"}) {
    const auto partition = make_partition(spec, data_, 10, kSeed);
    const Sampler source(data_, *partition, 16, Augmentation::kFlipCrop, kSeed);
    Batch batch;
    source.draw(0, 0, batch);
    const std::uint64_t before = testing::counted_allocations();
    for (std::uint64_t step = 1; step < 10; ++step) source.draw(static_cast<NodeId>(step % 10), step, batch);
    source.test_batch(0, 16, batch);
    EXPECT_EQ(testing::counted_allocations(), before) << spec;
  }
}

}  // namespace
}  // namespace shoal
