// A lower bound on the bytes any residency policy must move, for the rounds run so far and the arena given.
//
// Between two uses of a record it is either kept in RAM, which takes its bytes for that many steps, or it is moved. The
// arena has only so many byte-steps. Charging a price for each and letting every record choose the cheaper way gives,
// for any price, a bound that no policy can beat (Lagrangian duality); the price that makes the bound highest is
// searched for each round. docs/architecture.md has the derivation. A round's figure alone may borrow from its
// neighbours; the sum over rounds is the bound.
#pragma once

#include <cstdint>
#include <vector>

#include "store/state_layout.h"
#include "store/use_index.h"

namespace shoal {

class TrafficBound {
 public:
  TrafficBound(const StateLayout& layout, NodeId nodes);

  // Bytes for this round, which comes after those added before.
  std::uint64_t add_round(const UseIndex& round, std::uint64_t arena_bytes);

  static std::uint64_t bytes_for(NodeId nodes);  // of memory

 private:
  // What happened to a record before this round.
  struct Past {
    double price = 0;     // accumulated price per byte when it was last used
    double time = 0;      // and steps
    bool in_ram = false;  // it was in RAM at that time: there is something to keep
    // Its present version was made since opening, and must be written unless it is kept till it is replaced.
    bool unsaved = false;
    bool maybe_zero = false;  // private and fresh from a create: most likely all zeros, which cost nothing
  };

  // How gaps that began before this round are priced: with what was charged then, or as if it had been today's price.
  enum class Before { kAsCharged, kAtThisPrice };

  // Minimum over all choices of (bytes moved + price of byte-steps kept) at this price per byte-step.
  double cost(const UseIndex& round, double price, Before before) const;
  double public_cost(const UseIndex& round, NodeId node, double price, Before before) const;
  double private_cost(const UseIndex& round, NodeId node, double price, Before before) const;
  double best_price(const UseIndex& round, double byte_steps) const;
  double first_gap(const Past& past, std::uint32_t step, double price, Before before) const;
  void advance(const UseIndex& round, double price);

  double bytes_[kPartCount];
  double now_ = 0;  // accumulated price per byte at the round's start
  double now_steps_ = 0;
  double bound_ = 0;  // of all rounds so far; a round may take some of it back
  double reported_ = 0;
  std::vector<Past> past_[kPartCount];
};

}  // namespace shoal
