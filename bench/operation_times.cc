#include "bench/operation_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace shoal::bench {

std::size_t OperationTimes::bucket_of(std::uint64_t nanoseconds) {
  // Below 2^kSubBits every value has its own bucket; above, the top kSubBits bits after the leading one choose it.
  const auto width = static_cast<unsigned>(std::bit_width(nanoseconds));
  if (width <= kSubBits) return nanoseconds;
  const unsigned shift = width - kSubBits - 1;
  const std::uint64_t sub = (nanoseconds >> shift) & ((1U << kSubBits) - 1);
  return (static_cast<std::size_t>(shift + 1) << kSubBits) + sub;
}

std::uint64_t OperationTimes::lower_edge(std::size_t bucket) {
  const std::size_t group = bucket >> kSubBits;
  const std::uint64_t sub = bucket & ((1U << kSubBits) - 1);
  if (group == 0) return sub;
  return ((std::uint64_t{1} << kSubBits) + sub) << (group - 1);
}

void OperationTimes::add(const OperationTimes& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
}

std::uint64_t OperationTimes::count() const {
  std::uint64_t total = 0;
  for (const std::uint64_t count : counts_) total += count;
  return total;
}

double OperationTimes::quantile_us(double fraction) const {
  const std::uint64_t total = count();
  if (total == 0) return 0;
  const auto rank = static_cast<std::uint64_t>(std::ceil(fraction * static_cast<double>(total)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i + 1 < kBuckets; ++i) {
    seen += counts_[i];
    if (seen >= std::max<std::uint64_t>(rank, 1)) {
      return static_cast<double>(lower_edge(i) + lower_edge(i + 1)) / 2 / 1000;
    }
  }
  return static_cast<double>(lower_edge(kBuckets - 1)) / 1000;
}

std::string OperationTimes::text() const {
  constexpr std::size_t kPerLine = (1U << kSubBits) / 2;
  constexpr std::size_t kBarWidth = 50;
  std::vector<std::uint64_t> lines;
  for (std::size_t i = 0; i < kBuckets; i += kPerLine) {
    std::uint64_t sum = 0;
    for (std::size_t k = i; k < i + kPerLine; ++k) sum += counts_[k];
    lines.push_back(sum);
  }
  const auto used = [](std::uint64_t sum) { return sum != 0; };
  const auto first = std::find_if(lines.begin(), lines.end(), used);
  const auto last = std::find_if(lines.rbegin(), lines.rend(), used).base();
  if (first == lines.end()) return "  (no operations)\n";
  const std::uint64_t most = *std::max_element(first, last);
  const auto total = static_cast<double>(count());
  std::string text;
  for (auto line = first; line != last; ++line) {
    const auto bucket = static_cast<std::size_t>(line - lines.begin()) * kPerLine;
    text +=
        fmt::format("  {:>12.1f} us {:>10} {:>6.2f} % {}\n", static_cast<double>(lower_edge(bucket)) / 1000, *line,
                    100 * static_cast<double>(*line) / total, std::string((*line * kBarWidth + most - 1) / most, '#'));
  }
  return text;
}

nlohmann::json OperationTimes::to_json() const {
  auto list = nlohmann::json::array();
  for (std::size_t i = 0; i < kBuckets; ++i) {
    if (counts_[i] != 0) list.push_back({static_cast<double>(lower_edge(i)) / 1000, counts_[i]});
  }
  return list;
}

OperationTimes OperationTimes::from_json(const nlohmann::json& list) {
  OperationTimes times;
  for (const auto& item : list) {
    const auto nanoseconds = static_cast<std::uint64_t>(std::llround(item.at(0).get<double>() * 1000));
    times.counts_[bucket_of(nanoseconds)] += item.at(1).get<std::uint64_t>();
  }
  return times;
}

}  // namespace shoal::bench
