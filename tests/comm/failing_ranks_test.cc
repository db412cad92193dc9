// Ranks fail, on one thread or another, while the others wait for them: all end, and one message says why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/program.h"

namespace shoal {
namespace {

class FailingRanks : public testing::Test {
 protected:
  // Three of them, that do what failing_ranks_main.cc says.
  void expect_one_message(const char* how, const std::string& expected, int code = 1) const {
    const Outcome outcome = run_program({how}, here_.path(), on_ranks_or_hung(3));
    EXPECT_EQ(outcome.code, code) << outcome.err;
    const auto lines = own_lines(outcome.err);
    ASSERT_EQ(lines.size(), 1U) << outcome.err;
    EXPECT_THAT(lines[0], testing::MatchesRegex("shoal-train: " + expected));
  }

  TemporaryDirectory here_;
};

TEST_F(FailingRanks, EndThoseWhoWaitInASum) {
  expect_one_message("one", "rank 2 on [^ ]+: it fails");
  expect_one_message("rank-0", "rank 0 on [^ ]+: it fails", 2);
}

TEST_F(FailingRanks, SaySoOnceThoughAllFailAtOnce) { expect_one_message("all", "rank [012] on [^ ]+: it fails"); }

TEST_F(FailingRanks, EndThoughTheirMainThreadWaitsForOthers) {
  expect_one_message("thread", "rank 1 on [^ ]+: it fails");
}

TEST_F(FailingRanks, SaySoOnceThoughTwoThreadsFail) { expect_one_message("two-threads", "rank 1 on [^ ]+: it fails"); }

TEST_F(FailingRanks, DoNotGoOnWhereOneOfThemHasAnError) {
  expect_one_message("not-agreed", "rank 1 on [^ ]+: it fails");
}

TEST_F(FailingRanks, EndThemselvesWhenRank0HearsNothing) { expect_one_message("unheard", "rank 1 on [^ ]+: it fails"); }

TEST_F(FailingRanks, EndWhenAStoreThatOthersReadFailsWhileItsOwnerWaits) {
  expect_one_message("serving", "rank 1 on [^ ]+: reading the public record of node .*Input/output error.*");
}

}  // namespace
}  // namespace shoal
