// The hot tier's memory: one region, carved into frames of record size.
//
// Public frames are numbered from the region's start, private ones from its end, so that the line between the two can
// move when a plan of another shape comes. A Frame is the only way to hold record-sized memory: move-only, it goes back
// by itself. Owned by the engine thread; not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "store/memory_budget.h"
#include "store/mode_report.h"
#include "store/state_layout.h"
#include "store/store_options.h"

namespace shoal {

class Arena;

class Frame {
 public:
  Frame() = default;
  Frame(Frame&& other) noexcept;
  Frame& operator=(Frame&& other) noexcept;
  ~Frame() { release(); }

  explicit operator bool() const { return arena_ != nullptr; }
  std::byte* data() const;  // null in an arena that only counts
  std::uint32_t number() const { return number_; }
  Part part() const { return part_; }
  void release() noexcept;

 private:
  friend class Arena;
  Frame(Arena* arena, Part part, std::uint32_t number) : arena_(arena), number_(number), part_(part) {}

  Arena* arena_ = nullptr;
  std::uint32_t number_ = 0;
  Part part_ = Part::kPublic;
};

struct ArenaOptions {
  std::uint64_t bytes = 0;
  std::span<std::byte> region;  // the owner's; empty: mapped here
  Want huge_pages = Want::kTry;
  Want page_lock = Want::kNo;
  bool addresses_only = false;  // no memory behind them: for a rehearsal, which touches no record
};

class Arena {
 public:
  Arena(const ArenaOptions& options, const StateLayout& layout, MemoryBudget& budget);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Records are used in place in mapped slabs: frames become tickets for resident bytes, with no memory of their own.
  void count_only();

  std::uint64_t bytes() const { return bytes_; }
  std::span<std::byte> region() const { return region_; }
  const std::vector<ModeReport>& modes() const { return modes_; }

  // How many frames of a part there are now, and the most there could be if it had the whole region.
  std::uint32_t frames(Part part) const { return count_[index(part)]; }
  std::uint32_t most_frames(Part part) const { return static_cast<std::uint32_t>(bytes_ / record_bytes_[index(part)]); }
  // Frames at or beyond a part's new count must be free.
  void split(std::uint32_t public_frames, std::uint32_t private_frames);

  std::uint32_t free_frames(Part part) const { return static_cast<std::uint32_t>(free_[index(part)].size()); }
  Frame take(Part part);  // empty when none is free

 private:
  friend class Frame;
  std::byte* data(Part part, std::uint32_t number) const;

  std::uint64_t bytes_;
  std::array<std::uint64_t, kPartCount> record_bytes_;
  MemoryCharge charge_;
  std::span<std::byte> region_;
  bool mapped_here_ = false;
  std::array<std::uint32_t, kPartCount> count_{};
  std::array<std::vector<std::uint32_t>, kPartCount> free_;
  std::vector<ModeReport> modes_;
};

}  // namespace shoal
