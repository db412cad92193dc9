// What the records hold, and the arithmetic of a step: integer, so that every engine on every machine gives the same
// bits, and word by word, so that a few words of each record can be followed exactly on the side (see shadow.h).
//
// A word looks like a trained weight: a finite fp32 below 2 in magnitude, of whose bits 28 vary. Byte-shuffled zstd
// shrinks that by 1.14, as it does trained LeNet-5 weights. Payloads need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "store/types.h"

namespace shoal::bench {

using Word = std::uint32_t;

// Everything that tells one word's value from another's, besides its position: seed, node, part for a new record;
// seed, round, part for a change.
Word creation_key(std::uint64_t seed, NodeId node, Part part);
Word change_key(std::uint64_t seed, std::uint64_t round, Part part);

constexpr Word as_weight(Word bits) { return (bits & 0x87ffffff) | 0x38000000; }

// A Weyl sequence, folded: additions and shifts, which SSE2 has. A real hash took as long as writing the records does.
inline constexpr Word kWeylStep = 0x9e3779b1;
constexpr Word folded(Word weyl) {
  const Word x = weyl ^ (weyl >> 15);
  return as_weight(x + (x << 9));
}
constexpr Word created(Word key, Word position) { return folded(key + position * kWeylStep); }

// One-to-one in each summand for a given rest, so that no error is forgotten in later rounds.
constexpr Word changed(Word sum, Word key) {
  const Word x = (sum + key) & 0x87ffffff;
  return (x ^ (x >> 11)) | 0x38000000;
}

Word word_at(const std::byte* payload, std::size_t position);

// Over whole payloads of `words` words.
void create(std::byte* out, std::size_t words, Word key);
void change(std::byte* payload, std::size_t words, Word key);  // in place
void mix(const std::byte* own, std::span<const std::byte* const> others, std::byte* out, std::size_t words, Word key);
Word fold(const std::byte* payload, std::size_t words);  // reads every word
std::uint64_t hash(const std::byte* payload, std::size_t words, std::uint64_t seed);

}  // namespace shoal::bench
