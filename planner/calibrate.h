// Measures this machine with one model: local steps, mixing, the disk through the store, gets.
#pragma once

#include <filesystem>

#include "planner/profile.h"
#include "planner/run_description.h"
#include "trainer/train_options.h"

namespace shoal {

// `folder` is on the disk to measure. Takes a minute or two, and about 4 GiB there for as long.
Profile calibrate(const TrainOptions& options, const std::filesystem::path& folder);

// The disk as the store uses it: bandwidths and processor time for records of this layout.
struct DiskSpeed {
  double read_bytes_per_second = 0;
  double write_bytes_per_second = 0;
  double cpu_seconds_per_byte = 0;
};
DiskSpeed measure_disk(const StateLayout& layout, IoEngine io, const std::filesystem::path& folder);

}  // namespace shoal
