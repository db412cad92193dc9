// One number for the state of a whole population: the acceptance test of everything below it.
//
// A node's hash is XXH3-128 over the bytes of its tensors (not the gaps), seeded with its id; the population's is the
// sum over nodes, so that the order does not matter. Not thread-safe; add() up partial ones.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "store/state_layout.h"
#include "store/types.h"

namespace shoal {

class StateHash {
 public:
  void add(NodeId node, const StateLayout& layout, const std::byte* public_state, const std::byte* private_state);
  void add(const StateHash& other);
  std::string text() const;  // 32 hexadecimal digits
  // As two numbers that are added up one by one over all ranks.
  std::array<std::int64_t, 2> numbers() const {
    return {static_cast<std::int64_t>(low_), static_cast<std::int64_t>(high_)};
  }
  static StateHash from_numbers(std::array<std::int64_t, 2> numbers);

 private:
  std::uint64_t low_ = 0;
  std::uint64_t high_ = 0;
};

}  // namespace shoal
