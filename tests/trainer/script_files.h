// TorchScript files for tests that do not include torch headers themselves. All map 1 x 28 x 28 images to 10 logits.
#pragma once

#include <filesystem>

namespace shoal {

// With buffers of all sorts: constants (one infinite, one a mask), a running mean, a counter, a switch.
void write_buffered_script(const std::filesystem::path& file);

void write_batch_norm_script(const std::filesystem::path& file);

void write_dropout_script(const std::filesystem::path& file);

// One layer whose weights are all `weight`.
void write_constant_script(const std::filesystem::path& file, double weight);

}  // namespace shoal
