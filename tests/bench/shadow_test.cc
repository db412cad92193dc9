// The rules of the contents and the shadow that follows them, against records kept whole in memory.
#include "bench/shadow.h"

#include <gtest/gtest.h>

#include <vector>

#include "bench/layouts.h"
#include "bench/plans.h"
#include "bench/steps.h"
#include "store/error.h"

namespace shoal::bench {
namespace {

class Population {
 public:
  Population(const StateLayout& layout, NodeId nodes)
      : current_(nodes, std::vector<std::byte>(layout.payload_bytes(Part::kPublic))),
        next_(current_),
        private_(nodes, std::vector<std::byte>(layout.payload_bytes(Part::kPrivate))) {}

  void run(const AccessPlan& plan, const Work& work) {
    for (std::size_t step = plan.size(); step-- > 0;) {  // any order will do
      const NodeId node = plan.node(step);
      std::vector<const std::byte*> reads;
      for (const NodeId read : plan.reads(step)) reads.push_back(current_[read].data());
      work({plan.kind(step), node, plan.reads(step), current_[node].data(), next_[node].data(), private_[node].data(),
            reads});
    }
    if (plan.size() != 0 && writes(plan.kind(0))) current_.swap(next_);
  }

  std::byte& public_byte(NodeId node, std::size_t i) { return current_[node][i]; }
  std::byte& private_byte(NodeId node, std::size_t i) { return private_[node][i]; }

 private:
  std::vector<std::vector<std::byte>> current_;
  std::vector<std::vector<std::byte>> next_;
  std::vector<std::vector<std::byte>> private_;
};

class ShadowTest : public testing::Test {
 protected:
  static constexpr NodeId kNodes = 20;

  void play(Verb verb) {
    population_.run(*plans_.plan(verb, round_), steps_.work(verb, round_));
    steps_.end_round();
    ++round_;
  }

  StateLayout layout_ = parse_layout("5000:2500");  // no multiples of any block
  Plans plans_{kNodes, 5, 1};
  Steps steps_{layout_, kNodes, 1};
  Population population_{layout_, kNodes};
  std::uint64_t round_ = 0;
};

TEST_F(ShadowTest, AcceptsWhatTheRulesGive) {
  for (const Verb verb : {Verb::kFill, Verb::kStream, Verb::kGossipRound, Verb::kGossipRound, Verb::kRandomRead,
                          Verb::kFill, Verb::kGossipRound, Verb::kInspect}) {
    EXPECT_NO_THROW(play(verb)) << name(verb);
  }
}

TEST_F(ShadowTest, NoticesAChangedWordOfANeighbourInTheNextRound) {
  play(Verb::kFill);
  population_.public_byte(3, 4999) ^= std::byte{1};
  EXPECT_THROW(play(Verb::kGossipRound), Error);
}

TEST_F(ShadowTest, NoticesAChangedPrivateWord) {
  play(Verb::kFill);
  population_.private_byte(19, 0) ^= std::byte{1};
  EXPECT_THROW(play(Verb::kStream), Error);
}

TEST_F(ShadowTest, NoticesARoundThatWasLost) {
  play(Verb::kFill);
  const Population before = population_;
  play(Verb::kStream);
  population_ = before;
  EXPECT_THROW(play(Verb::kInspect), Error);
}

TEST_F(ShadowTest, GoesBackToTheCheckpoint) {
  play(Verb::kFill);
  steps_.remember();
  const Population before = population_;
  play(Verb::kGossipRound);
  population_ = before;
  steps_.recall();
  EXPECT_NO_THROW(play(Verb::kInspect));
}

TEST_F(ShadowTest, FingerprintsEveryByteNotOnlyTheFollowedOnes) {
  play(Verb::kFill);
  play(Verb::kInspect);
  const std::uint64_t once = steps_.fingerprint();
  population_.public_byte(7, 40) ^= std::byte{1};  // between the words that are followed
  play(Verb::kInspect);
  EXPECT_NE(steps_.fingerprint(), 2 * once);
}

TEST(Content, MixesAnyNumberOfNeighbours) {
  constexpr std::size_t kWords = 300;
  std::vector<std::vector<std::byte>> records(20, std::vector<std::byte>(kWords * sizeof(Word)));
  for (NodeId node = 0; node < 20; ++node) create(records[node].data(), kWords, creation_key(1, node, Part::kPublic));
  std::vector<const std::byte*> others;
  std::vector<std::byte> out(kWords * sizeof(Word));
  for (NodeId node = 1; node < 20; ++node) {
    mix(records[0].data(), others, out.data(), kWords, 77);
    for (std::size_t i = 0; i < kWords; ++i) {
      Word sum = word_at(records[0].data(), i);
      for (const std::byte* other : others) sum += word_at(other, i);
      ASSERT_EQ(word_at(out.data(), i), changed(sum, 77)) << others.size() << " neighbours, word " << i;
    }
    others.push_back(records[node].data());
  }
}

TEST(Content, LooksLikeWeights) {
  std::vector<std::byte> payload(4096);
  create(payload.data(), 1024, creation_key(1, 2, Part::kPublic));
  for (int round = 0; round < 10; ++round) {
    change(payload.data(), 1024, change_key(1, static_cast<std::uint64_t>(round), Part::kPublic));
    for (std::size_t i = 0; i < 1024; ++i) EXPECT_EQ(word_at(payload.data(), i) & 0x78000000, 0x38000000U);
  }
}

}  // namespace
}  // namespace shoal::bench
