#include "trainer/model.h"

#include "store/error.h"

namespace shoal {

Model::Model(std::vector<TensorSpec> parameters, std::vector<TensorSpec> buffers)
    : parameters_(std::move(parameters)), buffers_(std::move(buffers)) {
  SHOAL_CHECK(!parameters_.empty());
  for (const TensorSpec& spec : parameters_) {
    SHOAL_CHECK(spec.dtype == DType::kFloat32 && spec.part == Part::kPublic);
  }
  // Exactly as far as the last parameter reaches: a record without buffers ends there.
  flat_size_ = StateLayout(parameters_).payload_bytes(Part::kPublic) / sizeof(float);
  std::vector<TensorSpec> all = parameters_;
  all.insert(all.end(), buffers_.begin(), buffers_.end());
  const std::uint64_t end = StateLayout(all).payload_bytes(Part::kPublic);
  buffers_bytes_ = buffers_.empty() ? 0 : end - buffers_offset();
}

std::uint64_t Model::parameter_count() const {
  std::uint64_t count = 0;
  for (const TensorSpec& spec : parameters_) {
    std::uint64_t size = 1;
    for (const std::int64_t extent : spec.shape) size *= static_cast<std::uint64_t>(extent);
    count += size;
  }
  return count;
}

std::uint64_t Model::buffers_offset() const {
  return round_up(flat_size_ * sizeof(float), StateLayout::kTensorAlignment);
}

std::uint64_t Model::buffers_bytes() const { return buffers_bytes_; }

}  // namespace shoal
