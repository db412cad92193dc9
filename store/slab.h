// One slab file: fixed-size slots, which of them are in use, and growth on demand.
//
// A slot is `live` while the running store refers to it and `retained` while a durable checkpoint does, the committed
// or the prepared one; it is free, and may be written again, only when it is neither. That one rule keeps old versions
// readable and checkpoints intact. Owned by the engine thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "store/io_device.h"
#include "store/location.h"
#include "store/slot_set.h"

namespace shoal {

// kPunch gives the slot's blocks back to the file system once it is free.
enum class AfterRelease { kReuse, kPunch };

// STORE/public.slab or STORE/private.slab.
std::filesystem::path slab_path(const std::filesystem::path& directory, Part part);

class Slab {
 public:
  Slab(IoDevice& device, const std::filesystem::path& path, OpenMode mode, Part part, std::uint64_t slot_bytes);

  FileId file() const { return file_; }
  Part part() const { return part_; }
  std::uint64_t slot_bytes() const { return slot_bytes_; }
  std::uint64_t offset(Slot slot) const { return slot * slot_bytes_; }
  std::uint64_t slots() const { return state_.size(); }
  std::uint64_t used_bytes() const { return used_ * slot_bytes_; }  // live or retained
  std::uint64_t most_used() const { return most_used_; }            // slots, at once, so far
  // What the file takes on disk: all slots but free ones that have been punched.
  std::uint64_t disk_bytes() const { return (state_.size() - holes_.count()) * slot_bytes_; }
  std::string describe(Slot slot) const;  // "file public.slab, slot 7 (offset 1748992)"

  // Live. The next free slot after the one handed out last, so that records which leave RAM together lie together; or
  // `wanted`, if it is free. One that has its blocks before one that was punched. When none is free, grows the file, by
  // no more than `most_more` slots but at least one. Throws Error on a full disk.
  Slot allocate(std::optional<std::uint64_t> wanted = std::nullopt,
                std::uint64_t most_more = std::numeric_limits<std::uint64_t>::max());
  bool can_allocate_in_place() const { return !free_.empty(); }  // with no more disk than it has
  void punch_free(std::uint64_t slots);                          // of so many free ones, if there are, the blocks go
  void release(Slot slot, AfterRelease after = AfterRelease::kReuse);
  bool retained(Slot slot) const { return (state_[slot] & (kCommitted | kPrepared)) != 0; }

  // The checkpoint just prepared refers to exactly the live slots; the committed one to what it did before.
  void retain_live();
  // The prepared checkpoint is the committed one now: what only the one before referred to is free.
  void drop_previous();
  // Opening: the slot is live and retained. Afterwards, adopt_rest() makes all others free.
  void adopt(Slot slot);
  void adopt_rest();

  static constexpr std::uint64_t kBytesPerSlot = 2;  // of memory: a state byte and a bit of two sets
  // Slots of a file that has grown to hold so many.
  static std::uint64_t slots_for(std::uint64_t used, std::uint64_t slot_bytes);

 private:
  enum : std::uint8_t { kLive = 1, kCommitted = 2, kPrepared = 4, kPunched = 8, kPunchWhenFree = 16 };

  void grow(std::uint64_t most_more);
  void make_free(Slot slot);
  void resize_to(std::uint64_t slots);

  IoDevice& device_;
  FileId file_;
  Part part_;
  std::uint64_t slot_bytes_;
  std::uint64_t used_ = 0;
  std::uint64_t most_used_ = 0;
  std::vector<std::uint8_t> state_;
  SlotSet free_;              // those that have blocks, or may have
  SlotSet holes_;             // free ones that surely have none
  std::uint64_t cursor_ = 0;  // where to look for the next free one
};

}  // namespace shoal
