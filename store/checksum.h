// XXH3-64, as records carry it, at once or in pieces.
//
// libxxhash's own dispatcher takes AVX-512 where the processor has it. In a run that streams its records through two
// workers, hashing what they mix cost three times as much that way as with AVX2: 44 us of a node-step against 14. So
// machines with AVX2 get a copy compiled for just that (checksum_avx2.cc), others what the library has for them.
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
