// A set of slots: a bit for each, found one after the other.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "store/error.h"

namespace shoal {

class SlotSet {
 public:
  bool empty() const { return count_ == 0; }
  std::uint64_t count() const { return count_; }
  bool contains(std::uint64_t slot) const {
    return slot / 64 < words_.size() && (words_[slot / 64] >> (slot % 64) & 1) != 0;
  }
  void make_room(std::uint64_t slots) { words_.resize((slots + 63) / 64, 0); }
  void insert(std::uint64_t slot) {
    words_[slot / 64] |= std::uint64_t{1} << (slot % 64);
    ++count_;
  }
  void erase(std::uint64_t slot) {
    words_[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
    --count_;
  }

  // The first from there on, round the end; the set is not empty.
  std::uint64_t next(std::uint64_t from) const {
    SHOAL_CHECK(count_ > 0);
    if (from / 64 >= words_.size()) from = 0;
    std::uint64_t word = from / 64;
    std::uint64_t bits = words_[word] & (~std::uint64_t{0} << (from % 64));
    while (bits == 0) {
      word = word + 1 < words_.size() ? word + 1 : 0;
      bits = words_[word];
    }
    return word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
  }

 private:
  std::vector<std::uint64_t> words_;
  std::uint64_t count_ = 0;
};

}  // namespace shoal
