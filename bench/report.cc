#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/operation_times.h"
#include "store/size_text.h"

namespace shoal::bench {
namespace {

using Json = nlohmann::json;

std::string number(const Json& result, const char* field, const char* format) {
  const auto found = result.find(field);
  if (found == result.end() || !found->is_number()) return "-";
  return fmt::format(fmt::runtime(format), found->get<double>());
}

std::string size(const Json& result, const char* field) {
  const auto found = result.find(field);
  if (found == result.end() || !found->is_number()) return "-";
  return size_text(found->get<std::uint64_t>());
}

std::vector<Json> by_workload(const Json& results) {
  std::vector<std::string> order;
  for (const Json& result : results) {
    const auto workload = result["workload"].get<std::string>();
    if (std::find(order.begin(), order.end(), workload) == order.end()) order.push_back(workload);
  }
  std::vector<Json> sorted;
  for (const std::string& workload : order) {
    for (const Json& result : results) {
      if (result["workload"] == workload) sorted.push_back(result);
    }
  }
  return sorted;
}

std::vector<std::string> row_of(const Json& result) {
  std::vector<std::string> row = {result["workload"], result["engine"]};
  if (result.contains("skipped")) {
    row.emplace_back("skipped");
    return row;
  }
  row.push_back(number(result, "seconds", "{:.3f}"));
  row.push_back("[" + number(result, "seconds_min", "{:.3f}") + " .. " + number(result, "seconds_max", "{:.3f}") + "]");
  row.push_back(number(result, "gigabytes_per_second", "{:.2f}"));
  row.push_back(number(result, "device_gigabytes_per_second", "{:.2f}"));
  row.push_back(size(result, "device_read_bytes"));
  row.push_back(size(result, "device_write_bytes"));
  row.push_back(number(result, "bound_ratio", "{:.3f}"));
  row.push_back(number(result, "fio_ratio", "{:.2f}"));
  row.push_back(number(result, "p50_us", "{:.0f}"));
  row.push_back(number(result, "p99_us", "{:.0f}"));
  std::string rss = size(result, "peak_rss_bytes");
  if (result.contains("rss_within_budget")) rss += result["rss_within_budget"].get<bool>() ? " ok" : " TOO MUCH";
  row.push_back(rss);
  return row;
}

}  // namespace

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool left = i < 2;
      text += fmt::format(fmt::runtime(left ? "{:<{}}  " : "{:>{}}  "), row[i], widths[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

std::string results_table(const Json& results) {
  std::vector<std::vector<std::string>> rows = {{"workload", "engine", "seconds", "[least .. most]", "GB/s",
                                                 "device GB/s", "read", "written", "x bound", "x fio", "p50 us",
                                                 "p99 us", "peak RSS"}};
  for (const Json& result : by_workload(results)) rows.push_back(row_of(result));
  return table(rows);
}

std::string histograms(const Json& results) {
  std::string text;
  for (const Json& result : by_workload(results)) {
    if (!result.contains("histogram")) continue;
    text += fmt::format("\n{} on {}: operation times from ...\n", result["workload"].get<std::string>(),
                        result["engine"].get<std::string>());
    text += OperationTimes::from_json(result["histogram"]).text();
  }
  return text;
}

}  // namespace shoal::bench
