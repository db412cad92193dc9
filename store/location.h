// Where the durable copy of a record is: in a slot, in the cold tier, known to be all zeros, or nowhere (only in RAM,
// or never written).
#pragma once

#include <cstdint>

#include "store/cold_tier.h"

namespace shoal {

using Slot = std::uint32_t;

// What tells a node's records in the cold tier apart: the checkpoint they will first belong to, and the side (0 or 1),
// since a version and its successor may both be there while a round runs.
constexpr Epoch cold_stamp(Epoch epoch, unsigned side) { return 2 * epoch + side; }
constexpr Epoch epoch_of_stamp(Epoch stamp) { return stamp / 2; }

// One 32-bit word, as the slot table and checkpoints keep it: a slot below 2^31, or 2^31 + the cold tier's stamp, or
// one of two marks.
class Location {
 public:
  constexpr Location() = default;
  static constexpr Location nowhere() { return Location(kNowhere); }
  static constexpr Location zero() { return Location(kZero); }
  static constexpr Location slab(Slot slot) { return Location(slot); }
  static constexpr Location cold(Epoch stamp) { return Location(kColdBit | stamp); }
  static constexpr Location from_word(std::uint32_t word) { return Location(word); }

  constexpr std::uint32_t word() const { return word_; }
  constexpr bool is_nowhere() const { return word_ == kNowhere; }
  constexpr bool is_zero() const { return word_ == kZero; }
  constexpr bool is_slab() const { return (word_ & kColdBit) == 0; }
  constexpr bool is_cold() const { return !is_slab() && word_ < kZero; }
  constexpr Slot slot() const { return word_; }
  constexpr Epoch stamp() const { return word_ & ~kColdBit; }

  friend constexpr bool operator==(Location, Location) = default;

  static constexpr Slot kMaxSlots = 1u << 31;
  static constexpr Epoch kMaxStamp = (1u << 31) - 3;

 private:
  static constexpr std::uint32_t kColdBit = 1u << 31;
  static constexpr std::uint32_t kNowhere = 0xffffffffu;
  static constexpr std::uint32_t kZero = 0xfffffffeu;

  constexpr explicit Location(std::uint32_t word) : word_(word) {}
  std::uint32_t word_ = kNowhere;
};

}  // namespace shoal
