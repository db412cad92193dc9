// Small types and constants that every file of the store speaks about.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace shoal {

using NodeId = std::uint32_t;
using Version = std::uint64_t;  // 0: never written; the first record of a node has version 1

inline constexpr NodeId kNoNode = std::numeric_limits<NodeId>::max();

// What O_DIRECT is given: every slot, offset and length is a multiple of it. 512 would do on most devices; 4096 does on
// all.
inline constexpr std::size_t kBlockBytes = 4096;
inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

// The two parts of a node's state record: what neighbours read, and what only the node itself uses.
enum class Part : std::uint8_t { kPublic = 0, kPrivate = 1 };
inline constexpr Part kParts[] = {Part::kPublic, Part::kPrivate};
inline constexpr std::size_t kPartCount = 2;

constexpr std::size_t index(Part part) { return static_cast<std::size_t>(part); }
constexpr std::string_view name(Part part) { return part == Part::kPublic ? "public" : "private"; }

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace shoal
