// Which files are a store's, and how they go: by name, one by one, so that nothing goes which anybody else has put
// beside them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "store/store_options.h"

namespace shoal {

inline constexpr const char* kSlotTableFile = "slots.table";

// The folder of slabs and manifest, and the cold tier's.
struct StoreFolders {
  StoreFolders(std::filesystem::path store, const std::filesystem::path& cold_tier);
  explicit StoreFolders(const StoreOptions& options) : StoreFolders(options.directory, options.cold_directory) {}

  std::filesystem::path store;
  std::filesystem::path cold;
};

// A store that is being made or deleted has a mark, from before the first file of the new one is there, or the first of
// the old one is gone, until after the last. Where there is a mark and no manifest lies half a store: worth nothing,
// and ours to delete.
struct HalfStore {
  std::uint64_t id = 0;
  std::filesystem::path cold;
  bool operator==(const HalfStore&) const = default;
};
void mark_half_store(const StoreFolders& folders, std::uint64_t id);  // durable when it returns
std::optional<HalfStore> half_store_in(const std::filesystem::path& directory);
void remove_half_store_mark(const std::filesystem::path& directory);

// The id of the store, or half a store, in this folder; none: there is none. Error when its manifest is damaged.
std::optional<std::uint64_t> store_id_in(const std::filesystem::path& directory);

// Error when a new store would replace another, or files that have the names of one's, and that is not asked for. Half
// a store does not count.
void require_free(const StoreFolders& folders, bool overwrite);

// Manifest, slabs, table and cold tier; not the lock, and no folder. The caller has marked them as half a store.
void remove_store_files(const StoreFolders& folders);
// A link to one stays, whatever it leads to.
void remove_if_empty(const std::filesystem::path& folder);

}  // namespace shoal
