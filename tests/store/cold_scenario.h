// What the cold tier's tests put into it, and what its crash test's child does and the parent expects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "store/types.h"

namespace shoal {

using Record = std::vector<std::byte>;
using Values = std::vector<std::pair<std::string, std::string>>;

// Half of it looks like noise and half like text, so that both ways of keeping a plane are used.
inline Record make_record(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Record record(size);
  for (std::size_t i = 0; i < size; ++i) record[i] = static_cast<std::byte>(i % 4 < 2 ? random() : seed);
  return record;
}

// One commit of the crash test: everything of it tells its number.
inline constexpr NodeId kCrashNodes = 3;
inline constexpr std::size_t kCrashRecordBytes = 50000;
inline Record crash_record(std::uint64_t number, NodeId node) {
  return make_record(kCrashRecordBytes, static_cast<unsigned>(number * 10 + node));
}
inline Values crash_values(std::uint64_t number) {
  const std::string text = std::to_string(number);
  return {{"number", text}, {"table", text + std::string(200000, static_cast<char>('a' + number % 26)) + text}};
}

}  // namespace shoal
