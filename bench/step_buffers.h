// One worker's memory for a step, for engines that copy records in and out.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "store/state_layout.h"

namespace shoal::bench {

class StepBuffers {
 public:
  // Room for `max_reads` neighbours too; 0 for an engine that has its own memory for them.
  StepBuffers(const StateLayout& layout, std::size_t max_reads)
      : public_bytes_(round_up(layout.payload_bytes(Part::kPublic), kBlockBytes)),
        private_bytes_(round_up(layout.payload_bytes(Part::kPrivate), kBlockBytes)),
        memory_(std::make_unique<std::byte[]>((2 + max_reads) * public_bytes_ + private_bytes_)) {}

  std::byte* current() const { return memory_.get(); }
  std::byte* next() const { return memory_.get() + public_bytes_; }
  std::byte* private_state() const { return memory_.get() + 2 * public_bytes_; }
  std::byte* read(std::size_t k) const { return private_state() + private_bytes_ + k * public_bytes_; }

  // Whole pages.
  std::size_t public_bytes() const { return public_bytes_; }
  std::size_t private_bytes() const { return private_bytes_; }

  std::vector<const std::byte*> reads;  // pointers for the StepView

 private:
  std::size_t public_bytes_;
  std::size_t private_bytes_;
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace shoal::bench
