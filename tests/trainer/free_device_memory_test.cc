// free_device_memory() with a CUDA runtime of this file's own.
#include "trainer/free_device_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace {

struct FakeDevices {
  std::vector<std::size_t> free = {1000, 2000};  // of each
  int current = 0;
  bool broken = false;
};
FakeDevices devices;

}  // namespace

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): CUDA's names
int cudaGetDevice(int* device) {
  *device = devices.current;
  return 0;
}
int cudaSetDevice(int device) {
  if (device < 0 || device >= static_cast<int>(devices.free.size())) return 101;
  devices.current = device;
  return 0;
}
int cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  if (devices.broken) return 2;
  *free = devices.free[static_cast<std::size_t>(devices.current)];
  *total = 5000;
  return 0;
}
// NOLINTEND(readability-identifier-naming)
}

namespace shoal {
namespace {

class FreeDeviceMemory : public testing::Test {
 protected:
  FreeDeviceMemory() { devices = {}; }
};

TEST_F(FreeDeviceMemory, IsThatOfTheDeviceThatIsNamed) {
  EXPECT_EQ(free_device_memory("cuda:1"), 2000U);
  EXPECT_EQ(free_device_memory("cuda:0"), 1000U);
}

TEST_F(FreeDeviceMemory, IsTheFirstOnesWhereNoNumberIsGiven) {
  devices.current = 1;
  EXPECT_EQ(free_device_memory("cuda"), 1000U);
}

TEST_F(FreeDeviceMemory, LeavesTheCurrentDeviceAsItIs) {
  for (const bool broken : {false, true}) {
    devices.broken = broken;
    free_device_memory("cuda:1");
    EXPECT_EQ(devices.current, 0);
  }
}

TEST_F(FreeDeviceMemory, IsNotKnownOfTheHostOrOfADeviceThatIsNotThere) {
  for (const char* device : {"cpu", "cuda:2", "cuda:", "cuda:1x", "cuda1", "cudas"}) {
    EXPECT_EQ(free_device_memory(device), std::nullopt) << device;
  }
}

TEST_F(FreeDeviceMemory, IsNotKnownWhereTheRuntimeFails) {
  devices.broken = true;
  EXPECT_EQ(free_device_memory("cuda"), std::nullopt);
}

}  // namespace
}  // namespace shoal
