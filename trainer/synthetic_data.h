// Images that need no download: digits in several hands, in grey, and signs in colour on a cluttered ground. Learnable,
// and hard enough that a model's accuracy says something: see the figures in the .cc file.
#pragma once

#include <cstdint>

#include "trainer/data_set.h"
#include "trainer/labelled_images.h"

namespace shoal {

inline constexpr std::uint32_t kSyntheticClasses = 10;
inline constexpr ImageShape kSyntheticDigitShape = {1, 28, 28};
inline constexpr ImageShape kSyntheticSignShape = {3, 32, 32};

// Image i is a function of (seed, split, i) alone; its label is i modulo the number of classes.
LabelledImages synthetic_digits(std::uint64_t seed, Split split, std::uint32_t count);
LabelledImages synthetic_signs(std::uint64_t seed, Split split, std::uint32_t count);

}  // namespace shoal
