// XXH3-64, as records carry it, at once or in pieces.
//
// Machines with AVX2 get a copy compiled for just that, AMD's with AVX-512 one for that (checksum_copies.h), others
// what libxxhash's dispatcher has for them. Alone in a loop all hash equally fast; between the reads of a mix they do
// not. On an Intel machine with AVX-512, mixing took 0.88 s of a worker's round with the dispatcher, which takes that,
// and 0.66 to 0.84 with the copy for AVX2; on an AMD Zen 5, 0.84 s with the copy for AVX2 and 0.80 with the one for
// AVX-512.
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
