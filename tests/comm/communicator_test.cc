#include "comm/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <thread>

#include "comm/comm_thread.h"
#include "tests/comm/ranks.h"

namespace shoal::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// What rank `rank` gives; of some, nothing; of others, more than goes in one piece.
std::string gift_of(unsigned rank) {
  return rank == 1 ? "" : std::string(300'000 * rank + 3, static_cast<char>('a' + rank));
}

TEST(Communicator, KnowsThatAllRanksAreHere) {
  EXPECT_GT(ranks().size(), 1U);
  EXPECT_EQ(ranks().hosts(), 1U);
  EXPECT_EQ(ranks().local_rank(), ranks().rank());
  EXPECT_EQ(ranks().local_size(), ranks().size());
  EXPECT_EQ(ranks().host_leader(), 0U);
  EXPECT_EQ(ranks().name(), "rank " + std::to_string(ranks().rank()) + " on " + ranks().host());
}

TEST(Communicator, AddsUpExactlyAndWrapsAround) {
  const auto rank = static_cast<std::int64_t>(ranks().rank());
  const auto size = static_cast<std::int64_t>(ranks().size());
  std::vector<std::int64_t> values(100'000);
  std::iota(values.begin(), values.end(), rank);
  values[0] = std::numeric_limits<std::int64_t>::max();
  ranks().sum(values);
  EXPECT_EQ(static_cast<std::uint64_t>(values[0]),
            static_cast<std::uint64_t>(size) * std::numeric_limits<std::int64_t>::max());
  for (std::size_t i = 1; i < values.size(); ++i) {
    ASSERT_EQ(values[i], size * static_cast<std::int64_t>(i) + size * (size - 1) / 2);
  }
}

TEST(Communicator, AddsUpAtRank0AndLeavesTheOthersWhatTheyGave) {
  std::vector<std::int64_t> values{1, static_cast<std::int64_t>(ranks().rank())};
  const std::vector<std::int64_t> given = values;
  ranks().sum_at_first(values);
  const auto size = static_cast<std::int64_t>(ranks().size());
  EXPECT_EQ(values, ranks().first() ? (std::vector<std::int64_t>{size, size * (size - 1) / 2}) : given);
}

TEST(Communicator, FindsTheLeast) {
  EXPECT_EQ(ranks().least(5 - static_cast<std::int64_t>(ranks().rank())),
            6 - static_cast<std::int64_t>(ranks().size()));
}

TEST(Communicator, GathersWhatEveryRankGaveByRank) {
  const std::vector<std::byte> gift = bytes_of(gift_of(ranks().rank()));
  const auto everywhere = ranks().gather_everywhere(gift);
  const auto at_first = ranks().gather(gift);
  ASSERT_EQ(everywhere.size(), ranks().size());
  EXPECT_EQ(at_first.size(), ranks().first() ? ranks().size() : 0);
  for (unsigned rank = 0; rank < ranks().size(); ++rank) {
    EXPECT_TRUE(everywhere[rank] == bytes_of(gift_of(rank))) << rank;
    if (ranks().first()) {
      EXPECT_TRUE(at_first[rank] == bytes_of(gift_of(rank))) << rank;
    }
  }
}

TEST(Communicator, GivesAllWhatRank0Has) {
  for (const std::string& text : {std::string("a word"), std::string(), std::string(3'000'000, 'x')}) {
    EXPECT_TRUE(ranks().broadcast(bytes_of(ranks().first() ? text : "not this")) == bytes_of(text)) << text.size();
  }
}

TEST(Communicator, AgreesWhereNobodyHasAnError) { EXPECT_NO_THROW(ranks().agree(nullptr)); }

TEST(Communicator, PollsATaskUntilItIsDoneAndGivesBackWhatItThrew) {
  int polls = 0;
  ranks().run([&] { return ++polls == 100; });
  EXPECT_EQ(polls, 100);
  EXPECT_THAT([&] { ranks().run([&]() -> bool { throw Error("it cannot be done"); }); },
              ThrowsMessage<Error>(HasSubstr("it cannot be done")));
  ranks().barrier();
}

// A service goes on being polled while the thread that asked for a collective sleeps in it.
TEST(Communicator, PollsServicesWhileARankIsWaitedFor) {
  struct Counting final : CommService {
    bool poll() override {
      ++polls;
      return false;
    }
    bool expecting() const override { return true; }
    std::atomic<int> polls = 0;
  } service;
  ranks().add(&service);
  if (ranks().first()) {
    while (service.polls < 50) std::this_thread::yield();
  }
  ranks().barrier();
  if (!ranks().first()) {
    EXPECT_GT(service.polls, 0);
  }
  ranks().remove(&service);
  const int polls = service.polls;
  ranks().barrier();
  EXPECT_EQ(service.polls, polls);
}

}  // namespace
}  // namespace shoal::testing
