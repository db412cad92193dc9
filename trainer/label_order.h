// The training samples sorted by label, 4 bytes a sample: what the partitions by label draw from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/data_set.h"

namespace shoal {

class LabelOrder {
 public:
  explicit LabelOrder(const DataSet& data) : begins_(data.classes() + 1), samples_(data.size(Split::kTrain)) {
    for (std::uint32_t i = 0; i < samples_.size(); ++i) ++begins_[data.label(Split::kTrain, i) + 1U];
    for (std::size_t label = 1; label < begins_.size(); ++label) begins_[label] += begins_[label - 1];
    std::vector<std::uint32_t> next = begins_;
    for (std::uint32_t i = 0; i < samples_.size(); ++i) samples_[next[data.label(Split::kTrain, i)]++] = i;
  }

  std::span<const std::uint32_t> all() const { return samples_; }
  std::span<const std::uint32_t> of(std::size_t label) const {
    return all().subspan(begins_[label], begins_[label + 1] - begins_[label]);
  }
  std::uint64_t bytes() const { return (samples_.size() + begins_.size()) * sizeof(std::uint32_t); }

 private:
  std::vector<std::uint32_t> begins_;
  std::vector<std::uint32_t> samples_;
};

}  // namespace shoal
