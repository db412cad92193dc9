// Where things are in a node's record: parameters and buffers (public); optimizer slots, algorithm slots and a few
// scalars (private). Immutable; shared between threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/state_layout.h"
#include "trainer/model.h"

namespace shoal {

// A node's counters, at the end of its private record. The algorithm's first stands in the middle, there or not, and
// its others follow: where they are decides what state_hash is.
struct NodeScalars {
  std::uint64_t steps = 0;  // local steps it has made
  std::uint64_t first_of_algorithm = 0;
  double last_loss = 0;  // of its last local step

  // The k-th of Algorithm::scalars().
  std::uint64_t& of_algorithm(std::size_t k) {
    return k == 0 ? first_of_algorithm : reinterpret_cast<std::uint64_t*>(this + 1)[k - 1];
  }
  static std::size_t bytes_for(std::size_t of_algorithm) {
    return sizeof(NodeScalars) + (of_algorithm > 1 ? of_algorithm - 1 : 0) * sizeof(std::uint64_t);
  }
};

class NodeLayout {
 public:
  NodeLayout(const Model& model, const std::vector<std::string>& optimizer_slots,
             const std::vector<std::string>& algorithm_slots, std::size_t algorithm_scalars);

  const StateLayout& state() const { return state_; }
  std::size_t flat_size() const { return flat_size_; }  // floats
  // The parameters' tensors, with their offsets in bytes.
  const std::vector<TensorPlace>& parameters() const { return parameters_; }
  const std::vector<TensorPlace>& buffers() const { return buffers_; }

  const float* parameters(const std::byte* record) const { return reinterpret_cast<const float*>(record); }
  float* parameters(std::byte* record) const { return reinterpret_cast<float*>(record); }
  const std::byte* buffers(const std::byte* record) const { return record + buffers_offset_; }
  std::byte* buffers(std::byte* record) const { return record + buffers_offset_; }
  std::uint64_t buffers_bytes() const { return buffers_bytes_; }

  std::size_t optimizer_slots() const { return optimizer_slots_; }
  std::size_t algorithm_slots() const { return algorithm_slots_; }
  // Optimizer slots first, then the algorithm's.
  float* slot(std::byte* private_record, std::size_t k) const {
    return reinterpret_cast<float*>(private_record + k * slot_stride_);
  }
  NodeScalars* scalars(std::byte* private_record) const {
    return reinterpret_cast<NodeScalars*>(private_record + scalars_offset_);
  }

 private:
  StateLayout state_;
  std::size_t flat_size_ = 0;
  std::uint64_t buffers_offset_ = 0;
  std::uint64_t buffers_bytes_ = 0;
  std::vector<TensorPlace> parameters_;
  std::vector<TensorPlace> buffers_;
  std::size_t optimizer_slots_ = 0;
  std::size_t algorithm_slots_ = 0;
  std::uint64_t slot_stride_ = 0;
  std::uint64_t scalars_offset_ = 0;
};

}  // namespace shoal
