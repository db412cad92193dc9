// Who takes how much of which disk: what several folders need is added up by file system and held against what is free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "store/disk_need.h"

namespace shoal {

// One folder that a rank writes to.
struct DiskShare {
  std::string host;
  std::string folder;
  std::uint64_t file_system = 0;  // of that host
  std::uint64_t free_bytes = 0;   // there
  std::uint64_t there_bytes = 0;  // in files of the rank's own, which are taken up or replaced: free for it as well
  std::uint64_t needed_bytes = 0;
};

// Of this host; the folder need not be there yet.
DiskShare share_of_disk(const std::filesystem::path& folder, std::string host);
std::uint64_t bytes_below(const std::filesystem::path& folder);  // on disk; 0 where there is none

// Where a rank's store and its cold tier will be.
struct RankDisk {
  DiskShare store;
  DiskShare cold;
  std::vector<DiskShare> with(const DiskNeed& need) const;
};

// A file system with all that is wanted of it.
struct SharedDisk {
  std::string host;
  std::string folder;  // of the first who wants some
  unsigned folders = 0;
  std::uint64_t needed_bytes = 0;
  std::uint64_t available_bytes = 0;
  bool fits() const { return needed_bytes <= available_bytes; }
};
std::vector<SharedDisk> add_up(const std::vector<DiskShare>& shares);

}  // namespace shoal
