// How long operations took: counts in buckets that are 1/16 of a power of two wide, so a quantile is exact to 6 %.
//
// Fixed size and cheap to add to; one per worker thread, merged after the round. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace shoal::bench {

class OperationTimes {
 public:
  void add(std::uint64_t nanoseconds) { ++counts_[bucket_of(nanoseconds)]; }
  void add(const OperationTimes& other);

  std::uint64_t count() const;
  double quantile_us(double fraction) const;  // 0 when nothing was counted

  // One line per factor of sqrt(2) that holds anything: from, count, share, bar.
  std::string text() const;

  nlohmann::json to_json() const;  // [[from_us, count], ...], empty buckets left out
  static OperationTimes from_json(const nlohmann::json& list);

 private:
  static constexpr unsigned kSubBits = 4;
  static constexpr std::size_t kBuckets = (64 - kSubBits + 1) << kSubBits;

  static std::size_t bucket_of(std::uint64_t nanoseconds);
  static std::uint64_t lower_edge(std::size_t bucket);  // in nanoseconds

  std::array<std::uint64_t, kBuckets> counts_{};
};

}  // namespace shoal::bench
