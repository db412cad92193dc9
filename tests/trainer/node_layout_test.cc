#include "trainer/node_layout.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "trainer/quadratic.h"

namespace shoal {
namespace {

NodeLayout layout(std::size_t scalars) {
  return NodeLayout(*make_quadratic({.dimension = 5}), {"momentum"}, {"second_copy"}, scalars);
}

// state_hash is of these bytes: where existing algorithms have theirs must not depend on what others ask for.
TEST(NodeLayout, KeepsTheCountersOfAllAlgorithmsWhereTheyAre) {
  EXPECT_EQ(offsetof(NodeScalars, steps), 0U);
  EXPECT_EQ(offsetof(NodeScalars, first_of_algorithm), 8U);
  EXPECT_EQ(offsetof(NodeScalars, last_loss), 16U);
  EXPECT_EQ(layout(0).state().find("scalars").bytes, 24U);
  EXPECT_EQ(layout(1).state().find("scalars").bytes, 24U);
  EXPECT_EQ(layout(3).state().find("scalars").bytes, 40U);
  EXPECT_EQ(layout(3).state().find("scalars").offset, layout(0).state().find("scalars").offset);
}

TEST(NodeLayout, GivesEachScalarOfTheAlgorithmAWordOfItsOwn) {
  const NodeLayout three = layout(3);
  alignas(64) std::byte record[1024] = {};
  ASSERT_LE(three.state().payload_bytes(Part::kPrivate), sizeof(record));
  NodeScalars& scalars = *three.scalars(record);
  scalars.steps = 1;
  scalars.last_loss = 2;
  for (std::size_t k = 0; k < 3; ++k) scalars.of_algorithm(k) = 10 + k;
  EXPECT_EQ(scalars.steps, 1U);
  EXPECT_EQ(scalars.last_loss, 2);
  for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(scalars.of_algorithm(k), 10 + k);
  const TensorPlace place = three.state().find("scalars");
  std::uint64_t last = 0;
  std::memcpy(&last, record + place.offset + place.bytes - sizeof(last), sizeof(last));
  EXPECT_EQ(last, 12U) << "the last one is the end of the record";
}

}  // namespace
}  // namespace shoal
