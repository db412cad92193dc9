// What is known of a folder's file system before anything is written there. The folder need not be there yet: the
// nearest one above it is asked.
#pragma once

#include <cstdint>
#include <filesystem>

namespace shoal {

struct FileSystem {
  std::uint64_t id = 0;  // tells those of one host apart
  std::uint64_t free_bytes = 0;
  bool is_memory = false;       // tmpfs
  bool takes_direct_io = true;  // as far as can be found out without a trace
};

FileSystem file_system_of(const std::filesystem::path& folder);  // Error that names the folder

}  // namespace shoal
