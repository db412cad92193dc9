// One slab file: fixed-size slots, which of them are in use, and growth on demand.
//
// A slot is `live` while the running store refers to it and `retained` while a durable checkpoint does, the committed
// or the prepared one; it is free, and may be written again, only when it is neither. That one rule keeps old versions
// readable and checkpoints intact. Owned by the engine thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "store/io_device.h"
#include "store/location.h"

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
  std::string describe(Slot slot) const;                            // "file public.slab, slot 7 (offset 1748992)"

  Slot allocate();  // live; grows the file when no slot is free. Throws Error on a full disk
  void release(Slot slot, AfterRelease after = AfterRelease::kReuse);
  bool retained(Slot slot) const { return (state_[slot] & (kCommitted | kPrepared)) != 0; }

  // The checkpoint just prepared refers to exactly the live slots; the committed one to what it did before.
  void retain_live();
  // The prepared checkpoint is the committed one now: what only the one before referred to is free.
  void drop_previous();
  // Opening: the slot is live and retained. Afterwards, adopt_rest() makes all others free.
  void adopt(Slot slot);
  void adopt_rest();

  static constexpr std::uint64_t kBytesPerSlot = 5;  // of memory: a state byte and a place in the free list

 private:
  enum : std::uint8_t { kLive = 1, kCommitted = 2, kPrepared = 4, kPunched = 8, kPunchWhenFree = 16 };

  void grow();
  void make_free(Slot slot);

  IoDevice& device_;
  FileId file_;
  Part part_;
  std::uint64_t slot_bytes_;
  std::uint64_t used_ = 0;
  std::vector<std::uint8_t> state_;
  std::vector<Slot> free_;  // last in, first out: what was freed last is written next
};

}  // namespace shoal
