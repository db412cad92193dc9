// Labelled images, training and test, held once per process as bytes. Immutable; shared between threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "trainer/batch.h"

namespace shoal {

enum class Split { kTrain, kTest };

class DataSet {
 public:
  virtual ~DataSet() = default;

  virtual ImageShape shape() const = 0;
  virtual std::uint32_t classes() const = 0;
  virtual std::uint32_t size(Split split) const = 0;
  virtual std::uint8_t label(Split split, std::uint32_t index) const = 0;
  virtual std::span<const std::uint8_t> image(Split split, std::uint32_t index) const = 0;  // channels x height x width
  virtual std::uint64_t bytes() const = 0;                                                  // of memory
  // Per channel; a pixel becomes (value / 255 - mean) / deviation.
  virtual std::span<const float> mean() const = 0;
  virtual std::span<const float> deviation() const = 0;
};

// synthetic-mnist, synthetic-cifar10 (generated from the seed), mnist:DIR (IDX, plain or .gz), cifar10:DIR (binary).
std::unique_ptr<DataSet> open_data_set(const std::string& spec, std::uint64_t seed);
// The shape and classes of what `spec` names, without reading or generating anything.
struct DataSetShape {
  ImageShape image;
  std::uint32_t classes = 0;
};
DataSetShape data_set_shape(const std::string& spec);

std::string data_set_choices();  // for --help

}  // namespace shoal
