#include "bench/content.h"

#include <cstring>

namespace shoal::bench {
namespace {

// A word wherever it lies, so that payloads need no alignment and loops over them are vectorised.
using PackedWord = Word __attribute__((aligned(1), may_alias));

const PackedWord* packed(const std::byte* payload) { return reinterpret_cast<const PackedWord*>(payload); }
PackedWord* packed(std::byte* payload) { return reinterpret_cast<PackedWord*>(payload); }

std::uint64_t scrambled(std::uint64_t x) {  // splitmix64's finaliser
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

Word key_of(std::uint64_t seed, std::uint64_t number, std::uint64_t purpose) {
  return static_cast<Word>(scrambled(scrambled(seed + 0x9e3779b97f4a7c15 * (purpose + 1)) + number));
}

// All streams in one pass: memory keeps up with that, and block by block it took three times as long.
template <std::size_t kOthers, bool kLast>
void add_pass(const std::byte* from, const std::byte* const* others, std::byte* out, std::size_t words, Word key) {
  const PackedWord* in[kOthers + 1] = {packed(from)};
  for (std::size_t k = 0; k < kOthers; ++k) in[k + 1] = packed(others[k]);
  PackedWord* to = packed(out);
  for (std::size_t i = 0; i < words; ++i) {
    Word sum = 0;
    for (std::size_t k = 0; k <= kOthers; ++k) sum += in[k][i];
    to[i] = kLast ? changed(sum, key) : sum;
  }
}

constexpr std::size_t kMostAtOnce = 8;

template <std::size_t kOthers = kMostAtOnce>
void last_pass(const std::byte* from, std::span<const std::byte* const> others, std::byte* out, std::size_t words,
               Word key) {
  if (others.size() == kOthers) {
    add_pass<kOthers, true>(from, others.data(), out, words, key);
  } else if constexpr (kOthers > 0) {
    last_pass<kOthers - 1>(from, others, out, words, key);
  }
}

}  // namespace

Word creation_key(std::uint64_t seed, NodeId node, Part part) { return key_of(seed, node, index(part)); }
Word change_key(std::uint64_t seed, std::uint64_t round, Part part) { return key_of(seed, round, 2 + index(part)); }

Word word_at(const std::byte* payload, std::size_t position) {
  Word word = 0;
  std::memcpy(&word, payload + position * sizeof(Word), sizeof(Word));
  return word;
}

void create(std::byte* out, std::size_t words, Word key) {
  PackedWord* to = packed(out);
  Word weyl = key;
  for (std::size_t i = 0; i < words; ++i, weyl += kWeylStep) to[i] = folded(weyl);
}

void change(std::byte* payload, std::size_t words, Word key) {
  PackedWord* to = packed(payload);
  for (std::size_t i = 0; i < words; ++i) to[i] = changed(to[i], key);
}

void mix(const std::byte* own, std::span<const std::byte* const> others, std::byte* out, std::size_t words, Word key) {
  for (; others.size() > kMostAtOnce; others = others.subspan(kMostAtOnce)) {
    add_pass<kMostAtOnce, false>(own, others.data(), out, words, key);
    own = out;
  }
  last_pass(own, others, out, words, key);
}

Word fold(const std::byte* payload, std::size_t words) {
  const PackedWord* in = packed(payload);
  Word sum = 0;
  for (std::size_t i = 0; i < words; ++i) sum += in[i];
  return sum;
}

std::uint64_t hash(const std::byte* payload, std::size_t words, std::uint64_t seed) {
  std::uint64_t state = scrambled(seed + 0x9e3779b97f4a7c15);
  for (std::size_t i = 0; i < words; ++i) state = (state ^ word_at(payload, i)) * 0x9fb21c651e98df25 + (state >> 32);
  return scrambled(state);
}

}  // namespace shoal::bench
