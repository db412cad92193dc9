// What was measured of one workload on one engine, over its measured rounds, and its form in the report.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "bench/device_bytes.h"
#include "bench/fio.h"
#include "bench/operation_times.h"

namespace shoal::bench {

// A point in time; the difference of two is what happened between.
struct Counters {
  std::optional<DeviceBytes> process;
  std::optional<DeviceBytes> block_device;
  double cpu_seconds = 0;

  static Counters now(const BlockDevice& device);
};

class Measurement {
 public:
  // One measured round (or checkpoint, ...). `lower_bound` and `store_bytes` as the store says, if it does.
  void add_round(double seconds, std::uint64_t logical_bytes, const Counters& before, const Counters& after);
  void add_store_figures(std::optional<std::uint64_t> lower_bound, std::optional<std::uint64_t> store_bytes,
                         double stalled_seconds);
  void add_operations(const OperationTimes& times) { operations_.add(times); }
  void add_fio(const FioSample& sample) { fio_.push_back(sample); }

  double median_seconds() const;
  std::optional<double> read_share() const;  // of the device bytes
  double device_bytes_per_second() const;    // median over rounds

  // Per round: seconds are the median, with the least and the most; bytes are the mean. fio_ratio is the median device
  // throughput over fio's: for each pattern the median of its samples, then the faster pattern.
  nlohmann::json to_json() const;
  const OperationTimes& operations() const { return operations_; }

 private:
  std::optional<double> fio_bytes_per_second() const;

  std::vector<double> seconds_;
  std::vector<double> device_rates_;
  std::uint64_t logical_bytes_ = 0;
  std::optional<DeviceBytes> process_ = DeviceBytes{};
  std::optional<DeviceBytes> block_device_ = DeviceBytes{};
  std::optional<std::uint64_t> lower_bound_bytes_;
  std::optional<std::uint64_t> store_bytes_;
  double stalled_seconds_ = 0;
  double cpu_seconds_ = 0;
  OperationTimes operations_;
  std::vector<FioSample> fio_;
};

double median(std::vector<double> values);  // 0 for none

}  // namespace shoal::bench
