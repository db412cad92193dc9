#include "trainer/node_layout.h"

#include "store/error.h"

namespace shoal {

NodeLayout::NodeLayout(const Model& model, const std::vector<std::string>& optimizer_slots,
                       const std::vector<std::string>& algorithm_slots, std::size_t algorithm_scalars)
    : flat_size_(model.flat_size()),
      buffers_offset_(model.buffers_offset()),
      buffers_bytes_(model.buffers_bytes()),
      optimizer_slots_(optimizer_slots.size()),
      algorithm_slots_(algorithm_slots.size()) {
  std::vector<TensorSpec> tensors = model.parameters();
  tensors.insert(tensors.end(), model.buffers().begin(), model.buffers().end());
  const auto flat = static_cast<std::int64_t>(flat_size_);
  for (const std::string& slot : optimizer_slots) {
    tensors.push_back({"optimizer." + slot, DType::kFloat32, {flat}, Part::kPrivate});
  }
  for (const std::string& slot : algorithm_slots) {
    tensors.push_back({"algorithm." + slot, DType::kFloat32, {flat}, Part::kPrivate});
  }
  tensors.push_back({"scalars",
                     DType::kUInt8,
                     {static_cast<std::int64_t>(NodeScalars::bytes_for(algorithm_scalars))},
                     Part::kPrivate});
  state_ = StateLayout(tensors);

  for (const TensorPlace& place : state_.tensors()) {
    if (place.spec.part == Part::kPrivate) continue;
    (parameters_.size() < model.parameters().size() ? parameters_ : buffers_).push_back(place);
  }
  slot_stride_ = round_up(flat_size_ * sizeof(float), StateLayout::kTensorAlignment);
  scalars_offset_ = state_.find("scalars").offset;
  SHOAL_CHECK(scalars_offset_ == slot_stride_ * (optimizer_slots_ + algorithm_slots_));
  SHOAL_CHECK(buffers_.empty() || buffers_.front().offset == buffers_offset_);
}

}  // namespace shoal
