// A few words of every record, followed in RAM beside the engine under test: what the record must hold, at any time.
//
// Eight words spread over each part, first and last included: 96 bytes a node. expect_*() of different nodes may be
// called from several threads in a round; the rest belongs to one thread, between rounds.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/content.h"
#include "store/state_layout.h"

namespace shoal::bench {

class Shadow {
 public:
  Shadow(const StateLayout& layout, NodeId nodes);

  std::size_t words(Part part) const { return words_[index(part)]; }

  // Advance the node's words by the step's rule and compare them with the payloads that the step has just written.
  // Throw Error where they differ: the engine gave wrong contents.
  void expect_created(NodeId node, std::uint64_t seed, const std::byte* next, const std::byte* private_state);
  void expect_changed(NodeId node, std::uint64_t seed, std::uint64_t round, std::span<const NodeId> reads,
                      const std::byte* next, const std::byte* private_state);
  // Compare what was read.
  void expect_public(NodeId node, const std::byte* payload) const;
  void expect_private(NodeId node, const std::byte* payload) const;

  void end_round();  // what the round's steps wrote is what others see from now on; of all nodes or of none
  void remember();   // checkpoint
  void recall();     // restore

  std::uint64_t hash() const;  // equal for engines that did the same things

 private:
  static constexpr std::size_t kSamples = 8;
  using Samples = std::array<Word, kSamples>;
  struct State {
    std::vector<Samples> published;
    std::vector<Samples> kept;  // private
  };

  void compare(NodeId node, Part part, const Samples& expected, const std::byte* payload) const;

  std::array<std::size_t, kPartCount> words_{};
  std::array<std::array<std::size_t, kSamples>, kPartCount> positions_{};
  State now_;
  State remembered_;
  std::vector<Samples> next_;
  std::atomic<bool> written_ = false;
};

}  // namespace shoal::bench
