#include "trainer/nearest_word.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(NearestWord, IsTheOneThatWasProbablyMeant) {
  const std::vector<std::string> words = {"nodes", "rounds", "momentum", "eval-every", "checkpoint-every"};
  EXPECT_EQ(nearest_word("nodse", words), "nodes");
  EXPECT_EQ(nearest_word("node", words), "nodes");
  EXPECT_EQ(nearest_word("eval_every", words), "eval-every");
  EXPECT_EQ(nearest_word("momentun", words), "momentum");
  EXPECT_EQ(nearest_word("rounds", words), "rounds");
}

TEST(NearestWord, TwoLettersThatChangedPlacesAreOneSlip) {
  EXPECT_EQ(nearest_word("ab", {"xb", "ba"}), "xb") << "both are one slip away: the first is taken";
  EXPECT_EQ(nearest_word("abcd", {"axxd", "acbd"}), "acbd");
}

}  // namespace
}  // namespace shoal
