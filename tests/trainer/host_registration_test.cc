// HostRegistration with a CUDA runtime of this file's own.
#include "trainer/host_registration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <vector>

namespace {

struct FakeRuntime {
  std::vector<std::pair<void*, std::size_t>> registered;
  int calls = 0;
  int error = 0;  // of the next registration
};
FakeRuntime runtime;

}  // namespace

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): CUDA's names
int cudaHostRegister(void* memory, std::size_t bytes, unsigned flags) {
  ++runtime.calls;
  EXPECT_EQ(flags, 1U) << "for all devices";
  if (runtime.error == 0) runtime.registered.emplace_back(memory, bytes);
  return runtime.error;
}
int cudaHostUnregister(void* memory) {
  return std::erase_if(runtime.registered, [&](const auto& each) { return each.first == memory; }) == 1 ? 0 : 1;
}
const char* cudaGetErrorString(int error) { return error == 2 ? "out of memory" : "another error"; }
// NOLINTEND(readability-identifier-naming)
}

namespace shoal {
namespace {

class HostRegistrationTest : public testing::Test {
 protected:
  HostRegistrationTest() { runtime = {}; }
  std::array<std::byte, 4096> memory_{};
};

TEST_F(HostRegistrationTest, LocksAllOfTheMemoryUntilItGoes) {
  {
    const HostRegistration registration(memory_);
    EXPECT_EQ(registration.refusal(), "");
    EXPECT_THAT(runtime.registered, testing::ElementsAre(std::pair<void*, std::size_t>(memory_.data(), 4096)));
  }
  EXPECT_THAT(runtime.registered, testing::IsEmpty());
}

TEST_F(HostRegistrationTest, StaysWhereItIsMovedTo) {
  HostRegistration last;
  {
    HostRegistration first(memory_);
    last = std::move(first);
  }
  EXPECT_EQ(runtime.registered.size(), 1U);
  last = {};
  EXPECT_THAT(runtime.registered, testing::IsEmpty());
  EXPECT_EQ(runtime.calls, 1);
}

TEST_F(HostRegistrationTest, SaysWhyTheRuntimeRefused) {
  runtime.error = 2;
  const HostRegistration registration(memory_);
  EXPECT_EQ(registration.refusal(), "cudaHostRegister: out of memory");
}

}  // namespace
}  // namespace shoal
