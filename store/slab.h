// One slab file: fixed-size slots, which of them are in use, and growth on demand.
//
// A slot is `live` while the running store refers to it and `retained` while the last durable checkpoint does; it is
// free, and may be written again, only when it is neither. That one rule keeps old versions readable and checkpoints
// intact. Owned by the engine thread.
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
  bool retained(Slot slot) const { return (state_[slot] & kRetained) != 0; }

  // The checkpoint just made durable refers to exactly the live slots.
  void retain_live();
  // Opening: the slot is live and retained. Afterwards, adopt_rest() makes all others free.
  void adopt(Slot slot);
  void adopt_rest();

  static constexpr std::uint64_t kBytesPerSlot = 5;  // of memory: a state byte and a place in the free list

 private:
  enum : std::uint8_t { kLive = 1, kRetained = 2, kPunched = 4, kPunchWhenFree = 8 };

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
