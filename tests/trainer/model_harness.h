// A model with memory for one node and a batch, for tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/model.h"
#include "trainer/random.h"

namespace shoal {

inline constexpr DataSetShape kGrey28 = {{1, 28, 28}, 10};
inline constexpr DataSetShape kColour16 = {{3, 16, 16}, 10};  // a quarter of the time of a ResNet
inline constexpr DataSetShape kColour32 = {{3, 32, 32}, 10};

inline Batch random_batch(const DataSetShape& data, std::size_t size, std::uint64_t stream = 0) {
  RandomStream random(11, Purpose::kTest, 0, stream);
  Batch batch;
  batch.size = size;
  batch.images.resize(size * data.image.pixels());
  for (float& pixel : batch.images) pixel = static_cast<float>(random.normal());
  for (std::size_t i = 0; i < size; ++i) batch.labels.push_back(random.below(data.classes));
  return batch;
}

struct Node {
  Node(const std::string& spec, const DataSetShape& data, std::uint64_t seed = 1, NodeId node = 0)
      : Node(make_model({.spec = spec, .data = data, .seed = seed, .device = "cpu"}), seed, node) {}

  Node(std::unique_ptr<Model> made, std::uint64_t seed, NodeId node)
      : model(std::move(made)),
        learner(model->make_learner()),
        parameters(model->flat_size(), -7.0F),
        buffers(model->buffers_bytes(), std::byte{7}),
        slope(model->flat_size(), -7.0F) {
    model->initialize(seed, node, parameters.data(), buffers.data());
  }

  double gradient(const Batch& batch) {
    return learner->gradient(0, 0, batch, parameters.data(), buffers.data(), slope.data());
  }
  Score score(const Batch& batch) { return learner->score(batch, parameters.data(), buffers.data()); }

  std::unique_ptr<Model> model;
  std::unique_ptr<Learner> learner;
  std::vector<float> parameters;
  std::vector<std::byte> buffers;
  std::vector<float> slope;
};

// Calls visit(index) for each float of the flat run that belongs to no parameter.
template <class Visit>
void for_each_gap(const Model& model, Visit visit) {
  std::vector<bool> used(model.flat_size(), false);
  const StateLayout layout(model.parameters());
  for (const TensorPlace& place : layout.tensors()) {
    for (std::uint64_t i = 0; i < place.bytes / sizeof(float); ++i) used[place.offset / sizeof(float) + i] = true;
  }
  for (std::size_t k = 0; k < used.size(); ++k) {
    if (!used[k]) visit(k);
  }
}

}  // namespace shoal
