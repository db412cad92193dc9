#include "store/store_files.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/cold_database.h"
#include "store/error.h"
#include "store/manifest.h"
#include "store/slab.h"

namespace shoal {
namespace fs = std::filesystem;
namespace {

fs::path mark_path(const fs::path& directory) { return directory / "incomplete"; }

// Of the store's own folder, and never there without a manifest unless somebody else put it there.
std::vector<fs::path> data_files(const fs::path& directory) {
  return {slab_path(directory, Part::kPublic), slab_path(directory, Part::kPrivate), directory / kSlotTableFile};
}

std::vector<fs::path> cold_files(const fs::path& directory) {
  std::vector<fs::path> files;
  if (!fs::is_directory(directory)) return files;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (entry.is_regular_file() && is_cold_file(entry.path().filename().string())) files.push_back(entry.path());
  }
  return files;
}

}  // namespace

StoreFolders::StoreFolders(fs::path store_folder, const fs::path& cold_tier)
    : store(std::move(store_folder)), cold(cold_tier.empty() ? store / "cold" : cold_tier) {}

void mark_half_store(const StoreFolders& folders, std::uint64_t id) {
  write_file_durably(mark_path(folders.store), fmt::format("{:016x}\n{}\n", id, folders.cold.string()));
}

std::optional<HalfStore> half_store_in(const fs::path& directory) {
  std::ifstream file(mark_path(directory), std::ios::binary);
  std::string id;
  std::string cold;
  if (!std::getline(file, id) || !std::getline(file, cold)) return std::nullopt;
  HalfStore half;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), half.id, 16);
  if (error != std::errc() || end != id.data() + id.size()) return std::nullopt;
  half.cold = cold;
  return half;
}

void remove_half_store_mark(const fs::path& directory) { fs::remove(mark_path(directory)); }

std::optional<std::uint64_t> store_id_in(const fs::path& directory) {
  if (Manifest::exists(directory)) return Manifest::read(directory).store_id;
  if (const auto half = half_store_in(directory)) return half->id;
  return std::nullopt;
}

void require_free(const StoreFolders& folders, bool overwrite) {
  if (overwrite) return;
  if (Manifest::exists(folders.store)) {
    throw Error(fmt::format(
        "there is a store in {} already; open it, choose another directory, or ask for it to be overwritten",
        folders.store.string()));
  }
  const std::optional<HalfStore> half = half_store_in(folders.store);
  std::vector<fs::path> others;
  if (!half) others = data_files(folders.store);
  if (!half || half->cold != folders.cold) {
    for (const fs::path& file : cold_files(folders.cold)) others.push_back(file);
  }
  for (const fs::path& file : others) {
    if (!fs::exists(file)) continue;
    throw Error(
        fmt::format("{} is there, and nothing says whose it is; choose another directory, or ask for it to be "
                    "overwritten",
                    file.string()));
  }
}

void remove_store_files(const StoreFolders& folders) {
  fs::remove(Manifest::path(folders.store));
  for (const fs::path& file : data_files(folders.store)) fs::remove(file);
  for (const fs::path& file : cold_files(folders.cold)) fs::remove(file);
}

void remove_if_empty(const fs::path& folder) {
  std::error_code not_empty;
  if (!fs::is_symlink(folder)) fs::remove(folder, not_empty);
}

}  // namespace shoal
