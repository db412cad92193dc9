#include "store/slab.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/error.h"

namespace shoal {
namespace {

// Files grow by 64 MiB or an eighth, whichever is more: few calls, little slack.
constexpr std::uint64_t kGrowBytes = 64 << 20;

std::uint64_t growth(std::uint64_t slots, std::uint64_t slot_bytes) {
  return std::max<std::uint64_t>({kGrowBytes / slot_bytes, slots / 8, 1});
}

}  // namespace

std::filesystem::path slab_path(const std::filesystem::path& directory, Part part) {
  return directory / fmt::format("{}.slab", name(part));
}

Slab::Slab(IoDevice& device, const std::filesystem::path& path, OpenMode mode, Part part, std::uint64_t slot_bytes)
    : device_(device), file_(device.open(path, mode)), part_(part), slot_bytes_(slot_bytes) {}

std::string Slab::describe(Slot slot) const {
  return fmt::format("file {}, slot {} (offset {})", device_.path(file_).string(), slot, offset(slot));
}

std::uint64_t Slab::slots_for(std::uint64_t used, std::uint64_t slot_bytes) {
  std::uint64_t slots = 0;
  while (slots < used) slots += growth(slots, slot_bytes);
  return slots;
}

Slot Slab::allocate(std::optional<std::uint64_t> wanted, std::uint64_t most_more) {
  if (free_.empty() && holes_.empty()) grow(most_more);
  SlotSet& from = free_.empty() ? holes_ : free_;
  const bool granted = wanted && from.contains(*wanted);
  const auto slot = static_cast<Slot>(granted ? *wanted : from.next(cursor_));
  if ((state_[slot] & kPunched) != 0) device_.allocate(file_, offset(slot), slot_bytes_);
  from.erase(slot);
  if (!granted) cursor_ = slot + std::uint64_t{1};
  state_[slot] = kLive;
  most_used_ = std::max(most_used_, ++used_);
  return slot;
}

void Slab::punch_free(std::uint64_t slots) {
  for (; slots > 0 && can_allocate_in_place(); --slots) {
    const auto slot = static_cast<Slot>(free_.next(cursor_));
    device_.punch(file_, offset(slot), slot_bytes_);
    state_[slot] = kPunched;
    free_.erase(slot);
    holes_.insert(slot);
  }
}

void Slab::resize_to(std::uint64_t slots) {
  state_.resize(slots, 0);
  free_.make_room(slots);
  holes_.make_room(slots);
}

void Slab::release(Slot slot, AfterRelease after) {
  SHOAL_CHECK((state_[slot] & kLive) != 0);
  state_[slot] &= static_cast<std::uint8_t>(~kLive);
  if (after == AfterRelease::kPunch) state_[slot] |= kPunchWhenFree;
  if (!retained(slot)) make_free(slot);
}

void Slab::retain_live() {
  for (std::uint8_t& state : state_) {
    if ((state & kLive) != 0) state |= kPrepared;
  }
}

void Slab::drop_previous() {
  for (std::size_t i = 0; i < state_.size(); ++i) {
    const auto slot = static_cast<Slot>(i);
    if (!retained(slot)) continue;
    const bool stays = (state_[i] & kPrepared) != 0;
    state_[i] &= static_cast<std::uint8_t>(~(kCommitted | kPrepared));
    if (stays) {
      state_[i] |= kCommitted;
    } else if ((state_[i] & kLive) == 0) {
      make_free(slot);
    }
  }
}

void Slab::adopt(Slot slot) {
  if (slot >= state_.size()) state_.resize(slot + std::size_t{1}, 0);
  SHOAL_CHECK(state_[slot] == 0);
  state_[slot] = kLive | kCommitted;
  most_used_ = std::max(most_used_, ++used_);
}

void Slab::adopt_rest() {
  const std::uint64_t in_file = device_.size(file_) / slot_bytes_;
  if (state_.size() > in_file) {
    throw Error(
        fmt::format("{} ends before slot {}, which the checkpoint refers to: the file was cut. Restore it or "
                    "start over",
                    device_.path(file_).string(), state_.size() - 1));
  }
  resize_to(in_file);
  for (std::uint64_t i = 0; i < in_file; ++i) {
    if (state_[i] == 0) {
      // A crash may have left it with or without blocks; treating it as punched allocates them again before use.
      state_[i] = kPunched;
      free_.insert(i);
    }
  }
}

void Slab::grow(std::uint64_t most_more) {
  const std::uint64_t before = state_.size();
  const std::uint64_t more = std::clamp<std::uint64_t>(most_more, 1, growth(before, slot_bytes_));
  SHOAL_CHECK(before + more < Location::kMaxSlots);
  device_.resize(file_, (before + more) * slot_bytes_);
  resize_to(before + more);
  for (std::uint64_t i = before; i < before + more; ++i) free_.insert(i);
}

void Slab::make_free(Slot slot) {
  const bool punch = (state_[slot] & kPunchWhenFree) != 0;
  if (punch) device_.punch(file_, offset(slot), slot_bytes_);
  state_[slot] = punch ? kPunched : 0;
  (punch ? holes_ : free_).insert(slot);
  --used_;
}

}  // namespace shoal
