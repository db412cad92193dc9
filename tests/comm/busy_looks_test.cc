#include "comm/busy_looks.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

using namespace std::chrono_literals;

TEST(BusyLooks, AreThoseThatCostMuchMoreThanOnesThatFindNothing) {
  BusyLooks looks;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(looks.busy(2us)) << i;
    EXPECT_TRUE(looks.busy(60us)) << i;
  }
}

TEST(BusyLooks, AreNoMoreToldWhereEveryLookHasBecomeDear) {
  BusyLooks looks;
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(looks.busy(1us)) << i;
  bool busy = true;
  for (unsigned i = 0; i < 2 * BusyLooks::kRemembered; ++i) busy = looks.busy(300us);
  EXPECT_FALSE(busy) << "hundreds of connections: that is what finding nothing costs";
  EXPECT_TRUE(looks.busy(2ms));
}

TEST(BusyLooks, BeginWithoutAnOpinion) { EXPECT_FALSE(BusyLooks().busy(1s)); }

}  // namespace
}  // namespace shoal
