// One split of a data set as it lies in memory: all images, then all labels. What the readers and generators return.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/batch.h"

namespace shoal {

struct LabelledImages {
  ImageShape shape;
  std::vector<std::uint8_t> pixels;  // labels.size() x channels x height x width
  std::vector<std::uint8_t> labels;
};

}  // namespace shoal
