// XXH3 compiled for one instruction set each: for checksum.cc alone, and only on a processor that has it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shoal {

struct Xxh3Copy {
  std::uint64_t (*hash)(const void* data, std::size_t bytes, std::uint64_t seed);
  void (*update)(void* state, const void* data, std::size_t bytes);  // an XXH3_state_t of libxxhash's
};

Xxh3Copy xxh3_avx2();
Xxh3Copy xxh3_avx512();

}  // namespace shoal
