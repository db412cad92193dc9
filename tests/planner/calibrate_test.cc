#include "planner/calibrate.h"

#include <gtest/gtest.h>

#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

// Large ones are few: they must not all stay in RAM, or there is nothing to measure.
TEST(MeasureDisk, MovesRecordsOfAnySize) {
  for (const std::int64_t floats : {10'000, 4'000'000}) {
    const TemporaryDirectory folder;
    const StateLayout layout({{"weights", DType::kFloat32, {floats}, Part::kPublic},
                              {"momentum", DType::kFloat32, {floats}, Part::kPrivate}});
    const DiskSpeed speed = measure_disk(layout, IoEngine::kAuto, folder.path());
    EXPECT_GT(speed.read_bytes_per_second, 0) << floats;
    EXPECT_GT(speed.write_bytes_per_second, 0) << floats;
    EXPECT_GT(speed.cpu_seconds_per_byte, 0) << floats;
  }
}

}  // namespace
}  // namespace shoal
