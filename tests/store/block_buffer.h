// Memory that requests may point into: aligned, zeroed, freed with its owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

#include "store/types.h"

namespace shoal {

class BlockBuffer {
 public:
  explicit BlockBuffer(std::size_t bytes, std::byte value = {})
      : memory_(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, bytes))), bytes_(bytes) {
    fill(value);
  }

  std::byte* data() { return memory_.get(); }
  std::span<std::byte> span() { return {memory_.get(), bytes_}; }
  void fill(std::byte value) { std::ranges::fill(span(), value); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> memory_;
  std::size_t bytes_;
};

}  // namespace shoal
