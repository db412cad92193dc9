#include "trainer/found_store.h"

#include <algorithm>

#include "store/error.h"
#include "store/manifest.h"
#include "store/store_lock.h"
#include "trainer/checkpoint_note.h"
#include "trainer/run_stores.h"

namespace shoal {
namespace fs = std::filesystem;

const CheckpointInfo* FoundStore::at(std::uint64_t epoch) const {
  const auto found = std::find_if(checkpoints.begin(), checkpoints.end(),
                                  [epoch](const CheckpointInfo& info) { return info.epoch == epoch; });
  return found == checkpoints.end() ? nullptr : &*found;
}

std::optional<FoundStore> find_store(StorePlace place) {
  if (!Manifest::exists(place.store)) return std::nullopt;
  place.id = Manifest::read(place.store).store_id;
  return FoundStore{place, StateStore::checkpoints(place.options())};
}

fs::path other_owner(const StorePlace& place, const fs::path& out) {
  if (!Manifest::exists(place.store)) return {};
  { const StoreLock unused(place.store, LockKind::kReader); }
  try {
    const std::string note = StateStore::checkpoints(place.options()).back().note;
    if (note.empty()) return {};
    const fs::path folder = CheckpointNote::parse(note).results_folder(place.store);
    const auto listed = RunStores::read(folder);
    return !same_folder(folder, out) && listed && listed->has(place.id) ? folder : fs::path();
  } catch (const Error&) {
    return {};  // the store or that folder's stores.json is damaged: no run can go on from it
  }
}

bool same_folder(const fs::path& left, const fs::path& right) {
  std::error_code error;
  return fs::weakly_canonical(left, error) == fs::weakly_canonical(right, error);
}

}  // namespace shoal
