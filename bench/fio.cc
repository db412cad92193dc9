#include "bench/fio.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/child_process.h"
#include "store/error.h"

namespace shoal::bench {

void to_json(nlohmann::json& json, const FioSample& sample) {
  json = {{"random", sample.random}, {"sequential", sample.sequential}};
}

void from_json(const nlohmann::json& json, FioSample& sample) {
  sample = {json.at("random").get<double>(), json.at("sequential").get<double>()};
}

Fio::Fio(const FioOptions& options) : options_(options), file_(options.directory / "fio.data") {
  run_program({"fio", "--thread", "--name=layout", "--filename=" + file_.string(), "--rw=write", "--bs=1M",
               "--direct=1", "--ioengine=io_uring", "--iodepth=8", fmt::format("--size={}", options.file_bytes),
               "--minimal"});
}

Fio::~Fio() {
  std::error_code ignored;
  std::filesystem::remove(file_, ignored);
}

FioSample Fio::measure(double read_share) const { return {fastest("rand", read_share), fastest("", read_share)}; }

double Fio::fastest(const char* pattern, double read_share) const {
  double most = 0;
  for (const unsigned depth : options_.depths) {
    std::vector<std::string> words = command(pattern, read_share, depth, options_.seconds);
    words.emplace_back("--output-format=json");
    const std::string output = run_program(words);
    try {
      const nlohmann::json job = nlohmann::json::parse(output).at("jobs").at(0);
      most = std::max(most, job.at("read").at("bw_bytes").get<double>() + job.at("write").at("bw_bytes").get<double>());
    } catch (const nlohmann::json::exception& error) {
      throw Error(fmt::format("fio's output is not understood: {}", error.what()));
    }
  }
  return most;
}

std::vector<std::string> Fio::at_rates(double read, double written) const {
  constexpr std::uint64_t kDay = 86'400;
  std::vector<std::string> words = command("rand", read / (read + written), options_.depths.front(), kDay);
  words.push_back(fmt::format("--rate={:.0f},{:.0f}", read, written));
  return words;
}

std::vector<std::string> Fio::command(const std::string& pattern, double read_share, unsigned depth,
                                      std::uint64_t seconds) const {
  const long percent = std::lround(read_share * 100);
  const std::string kind = percent >= 100 ? "read" : percent <= 0 ? "write" : "rw";
  // Threads: a job in a process of its own would outlive a fio that is killed. And fio writes "rw" and "randrw", but
  // "randread".
  return {"fio",
          "--thread",
          "--name=yardstick",
          "--filename=" + file_.string(),
          fmt::format("--rw={}{}", pattern, kind),
          fmt::format("--rwmixread={}", percent),
          fmt::format("--bs={}", options_.block_bytes),
          "--direct=1",
          "--ioengine=io_uring",
          "--fixedbufs=1",
          "--registerfiles=1",
          fmt::format("--iodepth={}", depth),
          fmt::format("--size={}", options_.file_bytes),
          "--time_based",
          fmt::format("--runtime={}", seconds),
          "--norandommap",
          "--randrepeat=0"};
}

}  // namespace shoal::bench
