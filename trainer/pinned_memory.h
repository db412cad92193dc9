// Host memory that a CUDA device copies from and to by itself: what the store's frames lie in when it computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace shoal {

class PinnedMemory {
 public:
  PinnedMemory() = default;
  explicit PinnedMemory(std::uint64_t bytes);  // an Error where it cannot be had

  std::span<std::byte> bytes() const { return {memory_.get(), size_}; }

  // LibTorch takes pinned memory in powers of two, so what is asked for can cost twice as much. This is the most, up to
  // `wanted`, that costs no more than `limit` (at least `wanted`).
  static std::uint64_t within(std::uint64_t wanted, std::uint64_t limit);

 private:
  std::shared_ptr<std::byte> memory_;
  std::uint64_t size_ = 0;
};

}  // namespace shoal
