// How one node's state is laid out: named tensors, each in the public or the private record, at fixed aligned offsets.
//
// One layout serves a whole run. It is written into the store's manifest; a store is opened only with an equal one.
// Immutable once built, so it may be shared between threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/types.h"

namespace shoal {

enum class DType : std::uint8_t { kFloat32, kFloat64, kFloat16, kBFloat16, kInt32, kInt64, kUInt8 };
std::size_t bytes_of(DType dtype);
std::string_view name(DType dtype);

struct TensorSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;  // empty: a scalar
  Part part = Part::kPublic;
};

struct TensorPlace {
  TensorSpec spec;
  std::uint64_t offset = 0;  // in the payload of its part; a multiple of StateLayout::kTensorAlignment
  std::uint64_t bytes = 0;
};

class StateLayout {
 public:
  static constexpr std::size_t kTensorAlignment = 64;  // a cache line, and what AVX-512 loads like best

  StateLayout() = default;
  // Places the tensors in the given order. Throws a usage Error for an empty public part, a repeated name or a negative
  // extent.
  explicit StateLayout(const std::vector<TensorSpec>& tensors);

  const std::vector<TensorPlace>& tensors() const { return tensors_; }
  const TensorPlace& find(std::string_view name) const;  // Error when there is none

  // What the caller sees of a record, and what it takes in a slot or a frame (header and payload, in whole blocks).
  std::uint64_t payload_bytes(Part part) const { return payload_bytes_[index(part)]; }
  std::uint64_t record_bytes(Part part) const;
  std::uint64_t state_bytes() const { return record_bytes(Part::kPublic) + record_bytes(Part::kPrivate); }

  std::string serialize() const;  // JSON
  static StateLayout parse(std::string_view text);
  // Nothing when equal; otherwise where they differ first, for people.
  std::optional<std::string> difference(const StateLayout& other) const;

 private:
  std::vector<TensorPlace> tensors_;
  std::uint64_t payload_bytes_[kPartCount] = {0, 0};
};

}  // namespace shoal
