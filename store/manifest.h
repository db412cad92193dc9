// STORE/manifest.json: what the store is. Written once, when it is created; checked whenever it is opened.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "store/state_layout.h"

namespace shoal {

struct Manifest {
  static constexpr std::uint32_t kFormat = 2;  // of everything on disk; docs/on-disk-format.md

  std::uint64_t store_id = 0;
  NodeId nodes = 0;
  StateLayout layout;

  static std::filesystem::path path(const std::filesystem::path& directory);
  static bool exists(const std::filesystem::path& directory);

  void write(const std::filesystem::path& directory) const;  // durable when it returns
  // Error when it is damaged or of another format version.
  static Manifest read(const std::filesystem::path& directory);
  void require_id(std::uint64_t wanted, const std::filesystem::path& directory) const;  // 0: any
  // Error that says where the store differs from what the caller wants.
  void require(const StateLayout& wanted_layout, NodeId wanted_nodes, const std::filesystem::path& directory) const;
};

// A file whose contents are replaced as a whole and durably: temporary, fsync, rename, fsync of the directory.
void write_file_durably(const std::filesystem::path& path, const std::string& text);
void sync_file(const std::filesystem::path& path);

}  // namespace shoal
