// How fast a run goes, and how long it will take, from what is done so far. Knows no clock: times are handed in.
//
// A rank counts its own steps while a round runs, and takes the others to be as far as it is; at the end of the round
// the sum over all is known. Speed is steps over the time in which there were any, so evaluations and checkpoints do
// not make it look slow; what is left to wait for has its share of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace shoal {

class RunSpeed {
 public:
  using Time = std::chrono::steady_clock::time_point;

  RunSpeed() = default;
  RunSpeed(std::string unit, std::uint64_t rounds, Time now);  // rounds that are still to come

  // Steps that are planned: of this rank, and of all.
  void begin_round(std::uint64_t own_steps, std::uint64_t all_steps, Time now);
  void end_steps(std::uint64_t all_steps, double seconds);  // what was measured of the round; then come evaluations
  void end_round();

  // `own_done`: steps that this rank has made in the round.
  double done(std::uint64_t own_done) const;  // share of the whole, 0 to 1
  // "632.7 node-steps/s, 0:12 min left"; empty while nothing is known.
  std::string text(std::uint64_t own_done, Time now) const;

 private:
  double part_of_round(std::uint64_t own_done) const;

  std::string unit_;
  std::uint64_t rounds_ = 0;
  Time start_{};
  std::uint64_t rounds_done_ = 0;
  std::uint64_t steps_ = 0;  // of all ranks, in rounds whose steps have ended
  double seconds_ = 0;       // that they took
  bool stepping_ = false;    // between begin_round() and end_steps()
  bool in_round_ = false;
  std::uint64_t own_planned_ = 0;
  std::uint64_t all_planned_ = 0;
  Time round_start_{};
};

}  // namespace shoal
