// How fast a machine is with one model: what `shoal-plan calibrate` measures and writes, and plans of the same model
// read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace shoal {

struct RunDescription;

struct Profile {
  // Whose it is. Times of another model, batch, optimizer or device would be wrong, and are refused.
  std::string model;
  std::string optimizer;
  std::string device = "cpu";
  std::uint32_t batch = 0;
  std::uint64_t public_record_bytes = 0;
  std::uint64_t private_record_bytes = 0;
  unsigned threads = 1;  // that computed at the same time
  unsigned intra_op = 1;

  double step_seconds = 0;                // of one local step, on one of `threads` threads that all compute
  double node_seconds = 0;                // of a node in a round, beside its steps and its mix
  double mix_bytes_per_second = 0;        // inputs read, by one thread
  double read_bytes_per_second = 0;       // nothing but reads
  double write_bytes_per_second = 0;      // what is left for them beside reads
  double disk_bytes_per_second = 0;       // both together, in the rounds of a run that the disk limits
  double store_cpu_seconds_per_byte = 0;  // moved either way: checksums, system calls
  double mapped_bytes_per_second = 0;     // out of another rank's memory, on one host
  double get_bytes_per_second = 0;        // one-sided
  double ranks_slowdown = 1;              // of the workers, where a host's cores are divided between ranks
  double meeting_seconds = 0;             // of a round of several ranks of a host, when their steps are done
  double request_cpu_seconds = 0;         // of the communication threads, for a record that was asked for

  void write(const std::filesystem::path& file) const;
  // Error for a file that is no profile.
  static Profile read(const std::filesystem::path& file);
  // Empty when it is of this run's model; otherwise what differs.
  std::string difference(const RunDescription& run) const;
};

inline constexpr const char* kDefaultProfile = "shoal-profile.toml";

struct FoundProfile {
  std::optional<Profile> profile;
  std::string note;  // why one that is there is not used; may be empty
};
// The profile in `file`. One that the user asked for must be there and be of the run's model; one that just lies in the
// current folder is left alone otherwise.
enum class Asked { kNo, kYes };
FoundProfile find_profile(const std::filesystem::path& file, Asked asked, const RunDescription& run);

}  // namespace shoal
