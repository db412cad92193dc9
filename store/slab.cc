#include "store/slab.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/error.h"

namespace shoal {
namespace {

// Files grow by 64 MiB or an eighth, whichever is more: few calls, little slack.
constexpr std::uint64_t kGrowBytes = 64 << 20;

}  // namespace

std::filesystem::path slab_path(const std::filesystem::path& directory, Part part) {
  return directory / fmt::format("{}.slab", name(part));
}

Slab::Slab(IoDevice& device, const std::filesystem::path& path, OpenMode mode, Part part, std::uint64_t slot_bytes)
    : device_(device), file_(device.open(path, mode)), part_(part), slot_bytes_(slot_bytes) {}

std::string Slab::describe(Slot slot) const {
  return fmt::format("file {}, slot {} (offset {})", device_.path(file_).string(), slot, offset(slot));
}

Slot Slab::allocate() {
  if (free_.empty()) grow();
  const Slot slot = free_.back();
  if ((state_[slot] & kPunched) != 0) device_.allocate(file_, offset(slot), slot_bytes_);
  free_.pop_back();
  state_[slot] = kLive;
  ++used_;
  return slot;
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
  ++used_;
}

void Slab::adopt_rest() {
  const std::uint64_t in_file = device_.size(file_) / slot_bytes_;
  if (state_.size() > in_file) {
    throw Error(
        fmt::format("{} ends before slot {}, which the checkpoint refers to: the file was cut. Restore it or "
                    "start over",
                    device_.path(file_).string(), state_.size() - 1));
  }
  state_.resize(in_file, 0);
  free_.reserve(in_file);
  for (std::size_t i = state_.size(); i-- > 0;) {
    if (state_[i] == 0) {
      // A crash may have left it with or without blocks; treating it as punched allocates them again before use.
      state_[i] = kPunched;
      free_.push_back(static_cast<Slot>(i));
    }
  }
}

void Slab::grow() {
  const std::uint64_t before = state_.size();
  const std::uint64_t more = std::max<std::uint64_t>({kGrowBytes / slot_bytes_, before / 8, 1});
  SHOAL_CHECK(before + more < Location::kMaxSlots);
  device_.resize(file_, (before + more) * slot_bytes_);
  state_.resize(before + more, 0);
  free_.reserve(before + more);
  for (std::uint64_t i = before + more; i-- > before;) free_.push_back(static_cast<Slot>(i));
}

void Slab::make_free(Slot slot) {
  std::uint8_t state = 0;
  if ((state_[slot] & kPunchWhenFree) != 0) {
    device_.punch(file_, offset(slot), slot_bytes_);
    state = kPunched;
  }
  state_[slot] = state;
  free_.push_back(slot);
  --used_;
}

}  // namespace shoal
