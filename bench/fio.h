// The yardstick: what fio's io_uring direct job moves in the same directory with the same block size, depth and mix.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "store/store_options.h"

namespace shoal::bench {

struct FioOptions {
  std::filesystem::path directory;
  std::uint64_t file_bytes = 0;
  std::uint64_t block_bytes = 0;
  std::vector<unsigned> depths = {StoreOptions().queue_depth, StoreOptions().relaxed_queue_depth};
  unsigned seconds = 2;  // each measurement, at one depth
};

// Bytes per second, read and written together, at the best depth.
struct FioSample {
  double random = 0;
  double sequential = 0;
};
void to_json(nlohmann::json& json, const FioSample& sample);
void from_json(const nlohmann::json& json, FioSample& sample);

class Fio {
 public:
  // Writes the file first: blocks that were never written read at the speed of memory. Error where there is no fio.
  explicit Fio(const FioOptions& options);
  Fio(const Fio&) = delete;
  Fio& operator=(const Fio&) = delete;
  ~Fio();  // removes the file

  FioSample measure(double read_share) const;  // read_share: of the bytes, 0 to 1
  // The words of a command that moves so many bytes a second, at random, until it is ended.
  std::vector<std::string> at_rates(double read, double written) const;

 private:
  double fastest(const char* pattern, double read_share) const;
  std::vector<std::string> command(const std::string& pattern, double read_share, unsigned depth,
                                   std::uint64_t seconds) const;

  FioOptions options_;
  std::filesystem::path file_;
};

}  // namespace shoal::bench
