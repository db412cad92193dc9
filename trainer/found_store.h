// A store that is there, looked at before it is opened, replaced or deleted: nothing of it is changed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "store/state_store.h"
#include "trainer/store_place.h"

namespace shoal {

struct FoundStore {
  StorePlace place;                         // with its id
  std::vector<CheckpointInfo> checkpoints;  // oldest first; never empty

  const CheckpointInfo* at(std::uint64_t epoch) const;  // null: it has no such checkpoint
};

// None: there is no store, or half of one. Error when it is in use or damaged.
std::optional<FoundStore> find_store(StorePlace place);

// The results folder of the run that the store is of, if that is another one than `out`: the one that its last
// checkpoint names, if its stores.json lists the store. Empty otherwise. Error when the store is in use.
std::filesystem::path other_owner(const StorePlace& place, const std::filesystem::path& out);

bool same_folder(const std::filesystem::path& left, const std::filesystem::path& right);

}  // namespace shoal
