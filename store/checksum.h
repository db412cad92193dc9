// XXH3-64, as records carry it, at once or in pieces.
//
// Machines with AVX2 get a copy compiled for just that (checksum_avx2.cc), others what libxxhash's dispatcher has for
// them. On a machine with AVX-512, mixing took 0.88 s of a worker's round with the dispatcher and 0.66 to 0.84 with the
// copy, 0.62 without checks. That AVX-512 is the reason was not shown: alone in a loop, both hash equally fast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

struct XXH3_state_s;

namespace shoal {

std::uint64_t xxh3(const void* data, std::size_t bytes, std::uint64_t seed);

class Xxh3InPieces {
 public:
  Xxh3InPieces();
  void begin(std::uint64_t seed);
  void add(const void* data, std::size_t bytes);
  std::uint64_t digest() const;

 private:
  std::unique_ptr<XXH3_state_s, void (*)(XXH3_state_s*)> state_;
};

}  // namespace shoal
