#include "store/state_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "store/error.h"
#include "store/record.h"

namespace shoal {
namespace {

struct DTypeFacts {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<DTypeFacts, 7> kDTypes = {
    {{"f32", 4}, {"f64", 8}, {"f16", 2}, {"bf16", 2}, {"i32", 4}, {"i64", 8}, {"u8", 1}}};

const DTypeFacts& facts(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }

DType parse_dtype(std::string_view text) {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == text) return static_cast<DType>(i);
  }
  throw Error(fmt::format("unknown dtype '{}' in a state layout", text));
}

std::uint64_t tensor_bytes(const TensorSpec& spec) {
  std::uint64_t bytes = bytes_of(spec.dtype);
  for (const std::int64_t extent : spec.shape) {
    if (extent < 0) throw Error(fmt::format("tensor '{}' has a negative extent", spec.name), ExitCode::kUsage);
    const auto factor = static_cast<std::uint64_t>(extent);
    if (factor != 0 && bytes > (std::uint64_t{1} << 48) / factor) {
      throw Error(fmt::format("tensor '{}' is too large", spec.name), ExitCode::kUsage);
    }
    bytes *= factor;
  }
  return bytes;
}

void require_utf8(const std::string& name) {
  try {
    static_cast<void>(nlohmann::json(name).dump());
  } catch (const nlohmann::json::exception&) {
    throw Error("a tensor's name is not UTF-8, so it could not be written down", ExitCode::kUsage);
  }
}

std::string describe(const TensorPlace& place) {
  return fmt::format("'{}' {}[{}] {} at offset {}", place.spec.name, name(place.spec.dtype),
                     fmt::join(place.spec.shape, ", "), name(place.spec.part), place.offset);
}

}  // namespace

std::size_t bytes_of(DType dtype) { return facts(dtype).bytes; }
std::string_view name(DType dtype) { return facts(dtype).name; }

StateLayout::StateLayout(const std::vector<TensorSpec>& tensors) {
  std::set<std::string_view> names;
  for (const TensorSpec& spec : tensors) {
    if (!names.insert(spec.name).second) {
      throw Error(fmt::format("two tensors are named '{}'", spec.name), ExitCode::kUsage);
    }
    require_utf8(spec.name);
    std::uint64_t& end = payload_bytes_[index(spec.part)];
    const std::uint64_t offset = round_up(end, kTensorAlignment);
    const std::uint64_t bytes = tensor_bytes(spec);
    tensors_.push_back({spec, offset, bytes});
    end = offset + bytes;
  }
  if (payload_bytes(Part::kPublic) == 0) {
    throw Error("a state layout needs at least one public byte: what would neighbours read?", ExitCode::kUsage);
  }
}

const TensorPlace& StateLayout::find(std::string_view name) const {
  for (const TensorPlace& place : tensors_) {
    if (place.spec.name == name) return place;
  }
  throw Error(fmt::format("the state layout has no tensor '{}'", name));
}

std::uint64_t StateLayout::record_bytes(Part part) const {
  return round_up(sizeof(RecordHeader) + payload_bytes(part), kBlockBytes);
}

std::string StateLayout::serialize() const {
  auto list = nlohmann::json::array();
  for (const TensorPlace& place : tensors_) {
    list.push_back({{"name", place.spec.name},
                    {"dtype", name(place.spec.dtype)},
                    {"shape", place.spec.shape},
                    {"part", name(place.spec.part)},
                    {"offset", place.offset}});
  }
  return list.dump();
}

StateLayout StateLayout::parse(std::string_view text) {
  try {
    std::vector<TensorSpec> specs;
    std::vector<std::uint64_t> offsets;
    for (const auto& item : nlohmann::json::parse(text)) {
      const auto part = item.at("part").get<std::string>();
      if (part != "public" && part != "private") throw Error(fmt::format("unknown part '{}' in a state layout", part));
      specs.push_back({item.at("name").get<std::string>(), parse_dtype(item.at("dtype").get<std::string>()),
                       item.at("shape").get<std::vector<std::int64_t>>(),
                       part == "public" ? Part::kPublic : Part::kPrivate});
      offsets.push_back(item.at("offset").get<std::uint64_t>());
    }
    StateLayout layout(specs);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      if (layout.tensors_[i].offset != offsets[i]) {
        throw Error(fmt::format("tensor '{}' is at offset {}, which this version of Shoal would not choose",
                                specs[i].name, offsets[i]));
      }
    }
    return layout;
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("a state layout cannot be read: {}", error.what()));
  }
}

std::optional<std::string> StateLayout::difference(const StateLayout& other) const {
  const std::size_t common = std::min(tensors_.size(), other.tensors_.size());
  for (std::size_t i = 0; i < common; ++i) {
    const std::string mine = describe(tensors_[i]);
    const std::string theirs = describe(other.tensors_[i]);
    if (mine != theirs) return fmt::format("tensor {} is {} here and {} there", i, mine, theirs);
  }
  if (tensors_.size() != other.tensors_.size()) {
    return fmt::format("{} tensors here and {} there; the first that differs is {}", tensors_.size(),
                       other.tensors_.size(),
                       describe(tensors_.size() > common ? tensors_[common] : other.tensors_[common]));
  }
  return std::nullopt;
}

}  // namespace shoal
