#include "bench/measurement.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace shoal::bench {
namespace {

void add_difference(std::optional<DeviceBytes>& sum, const std::optional<DeviceBytes>& before,
                    const std::optional<DeviceBytes>& after) {
  if (sum && before && after) {
    *sum += *after - *before;
  } else {
    sum.reset();
  }
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Counters Counters::now(const BlockDevice& device) {
  return {process_device_bytes(), device.bytes(), bench::cpu_seconds()};
}

void Measurement::add_round(double seconds, std::uint64_t logical_bytes, const Counters& before,
                            const Counters& after) {
  seconds_.push_back(seconds);
  logical_bytes_ += logical_bytes;
  cpu_seconds_ += after.cpu_seconds - before.cpu_seconds;
  add_difference(process_, before.process, after.process);
  add_difference(block_device_, before.block_device, after.block_device);
  if (before.process && after.process) {
    device_rates_.push_back(static_cast<double>((*after.process - *before.process).total()) / seconds);
  }
}

void Measurement::add_store_figures(std::optional<std::uint64_t> lower_bound, std::optional<std::uint64_t> store_bytes,
                                    double stalled_seconds) {
  if (lower_bound) lower_bound_bytes_ = lower_bound_bytes_.value_or(0) + *lower_bound;
  if (store_bytes) store_bytes_ = store_bytes_.value_or(0) + *store_bytes;
  stalled_seconds_ += stalled_seconds;
}

double Measurement::median_seconds() const { return median(seconds_); }

std::optional<double> Measurement::read_share() const {
  if (!process_ || process_->total() == 0) return std::nullopt;
  return static_cast<double>(process_->read) / static_cast<double>(process_->total());
}

double Measurement::device_bytes_per_second() const { return median(device_rates_); }

std::optional<double> Measurement::fio_bytes_per_second() const {
  if (fio_.empty()) return std::nullopt;
  std::vector<double> random;
  std::vector<double> sequential;
  for (const FioSample& sample : fio_) {
    random.push_back(sample.random);
    sequential.push_back(sample.sequential);
  }
  return std::max(median(random), median(sequential));
}

nlohmann::json Measurement::to_json() const {
  const double rounds = std::max<double>(1, static_cast<double>(seconds_.size()));
  const auto per_round = [rounds](std::uint64_t bytes) {
    return static_cast<std::uint64_t>(static_cast<double>(bytes) / rounds + 0.5);
  };
  const auto per_round_or_null = [&](std::optional<std::uint64_t> bytes) {
    return bytes ? nlohmann::json(per_round(*bytes)) : nlohmann::json();
  };
  const auto read = [](const std::optional<DeviceBytes>& b) { return b ? std::optional(b->read) : std::nullopt; };
  const auto written = [](const std::optional<DeviceBytes>& b) { return b ? std::optional(b->written) : std::nullopt; };
  const double seconds = median_seconds();
  const auto logical = static_cast<double>(per_round(logical_bytes_));
  const std::optional<double> fio = fio_bytes_per_second();

  nlohmann::json json = {
      {"rounds", seconds_.size()},
      {"seconds", seconds},
      {"seconds_min", *std::min_element(seconds_.begin(), seconds_.end())},
      {"seconds_max", *std::max_element(seconds_.begin(), seconds_.end())},
      {"logical_bytes", per_round(logical_bytes_)},
      {"device_read_bytes", per_round_or_null(read(process_))},
      {"device_write_bytes", per_round_or_null(written(process_))},
      {"block_device_read_bytes", per_round_or_null(read(block_device_))},
      {"block_device_write_bytes", per_round_or_null(written(block_device_))},
      {"lower_bound_bytes", per_round_or_null(lower_bound_bytes_)},
      {"store_bytes", per_round_or_null(store_bytes_)},
      {"gigabytes_per_second", seconds > 0 ? logical / seconds / 1e9 : 0},
      {"device_gigabytes_per_second", process_ ? nlohmann::json(device_bytes_per_second() / 1e9) : nlohmann::json()},
      {"p50_us", operations_.quantile_us(0.50)},
      {"p99_us", operations_.quantile_us(0.99)},
      {"cpu_seconds", cpu_seconds_ / rounds},
      {"stalled_seconds", stalled_seconds_ / rounds},
  };
  if (process_ && lower_bound_bytes_ && *lower_bound_bytes_ != 0) {
    json["bound_ratio"] = static_cast<double>(process_->total()) / static_cast<double>(*lower_bound_bytes_);
  }
  if (fio) {
    json["fio_gigabytes_per_second"] = *fio / 1e9;
    json["fio_ratio"] = device_bytes_per_second() / *fio;
    json["fio_samples"] = fio_;
  }
  return json;
}

}  // namespace shoal::bench
