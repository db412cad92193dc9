// MNIST's file format: a header of big-endian numbers, then bytes. Plain or gzip, told apart by content.
//
// Images: magic 0x00000803, count, height, width, then count x height x width bytes. Labels: magic 0x00000801, count,
// then count bytes.
#pragma once

#include <filesystem>

#include "trainer/data_set.h"
#include "trainer/labelled_images.h"

namespace shoal {

inline constexpr std::uint32_t kMnistClasses = 10;
inline constexpr ImageShape kMnistShape = {1, 28, 28};

// Reads {train,t10k}-images-idx3-ubyte and -labels-idx1-ubyte, or the same names with .gz, from `directory`.
LabelledImages read_mnist(const std::filesystem::path& directory, Split split);

}  // namespace shoal
