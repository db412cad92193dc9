// What a worker does with one step's data, and the check that the data was right.
#pragma once

#include <atomic>
#include <cstdint>

#include "bench/engine.h"
#include "bench/shadow.h"

namespace shoal::bench {

class Steps {
 public:
  Steps(const StateLayout& layout, NodeId nodes, std::uint64_t seed) : shadow_(layout, nodes), seed_(seed) {}

  // The work of round number `round`. Valid until this object is gone; end_round() belongs after the round.
  Work work(Verb verb, std::uint64_t round);
  void end_round() { shadow_.end_round(); }
  void remember() { shadow_.remember(); }
  void recall() { shadow_.recall(); }

  // Of all records' every byte, in any order of nodes, as the inspect rounds so far have seen them.
  std::uint64_t fingerprint() const { return fingerprint_.load(); }
  std::uint64_t expectation() const { return shadow_.hash(); }

 private:
  void fill(const StepView& step);
  void change(const StepView& step, std::uint64_t round);
  void inspect(const StepView& step);
  void read(const StepView& step);

  Shadow shadow_;
  std::uint64_t seed_;
  std::atomic<std::uint64_t> fingerprint_ = 0;
  std::atomic<Word> sink_ = 0;  // keeps the compiler from leaving reads out
};

}  // namespace shoal::bench
