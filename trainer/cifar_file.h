// CIFAR-10's binary format: records of one label byte and 3 x 32 x 32 pixel bytes (red, green, blue plane), no header.
#pragma once

#include <filesystem>

#include "trainer/data_set.h"
#include "trainer/labelled_images.h"

namespace shoal {

inline constexpr std::uint32_t kCifarClasses = 10;
inline constexpr ImageShape kCifarShape = {3, 32, 32};

// Reads data_batch_1.bin .. data_batch_5.bin or test_batch.bin from `directory` or from cifar-10-batches-bin/ in it,
// which is what the archive unpacks to. A batch may hold any number of records: a subset of the set works too.
LabelledImages read_cifar10(const std::filesystem::path& directory, Split split);

}  // namespace shoal
