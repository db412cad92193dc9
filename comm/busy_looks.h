// Whether a look around has moved something, told by what it cost.
//
// MPI does not say when a look has moved bytes that others read here, and over TCP nothing but looks does. One that
// cost much more than a look that finds nothing has, and more are waiting: with naps meanwhile another host reads
// at 1.4 GB/s instead of 4. What a look costs that finds nothing depends on the network and on how many ranks there
// are, and changes when they connect: it is taken to be the least of the last ones.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace shoal {

class BusyLooks {
 public:
  using Cost = std::chrono::nanoseconds;  // of the processor's time: a thread that had to wait for it was not busy

  bool busy(Cost cost) {
    if (++looks_ == kRemembered) {
      least_before_ = std::exchange(least_, Cost::max());
      looks_ = 0;
    }
    least_ = std::min(least_, cost);
    return cost > kMuch + 4 * std::min(least_, least_before_);
  }

  static constexpr unsigned kRemembered = 256;  // to twice as many

 private:
  static constexpr std::chrono::microseconds kMuch{10};

  Cost least_ = Cost::max();
  Cost least_before_ = Cost::max();
  unsigned looks_ = 0;
};

}  // namespace shoal
