// OUT/stores.json: which stores are the run's, wherever they lie. A store is the run's if it has the id that is listed,
// and only such a store is opened, moved from, or deleted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/store_place.h"

namespace shoal {

struct RunStores {
  std::vector<StorePlace> current;   // by rank; empty: the run has kept none
  std::vector<StorePlace> obsolete;  // the run's too, and worth nothing: not filled yet, or what was in them has moved

  // Paths below `out` are relative to it, so that the folder may be renamed or copied as a whole.
  std::string text(const std::filesystem::path& out) const;
  static RunStores parse(std::string_view text, const std::filesystem::path& out);

  static constexpr const char* kFile = "stores.json";
  // None: there is no such file.
  static std::optional<RunStores> read(const std::filesystem::path& out);

  bool has(std::uint64_t id) const;                 // among the current ones
  bool is_obsolete(const StorePlace& place) const;  // by place and id
};

}  // namespace shoal
