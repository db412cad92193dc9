#include "tests/comm/ranks.h"

#include <gtest/gtest.h>

#include <optional>

namespace shoal::testing {
namespace {

std::optional<Communicator> joined;

}  // namespace

Communicator& ranks() { return *joined; }

}  // namespace shoal::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  shoal::testing::joined.emplace(250'000);  // so little in one piece that there are many
  const int result = RUN_ALL_TESTS();
  shoal::testing::joined.reset();
  return result;
}
