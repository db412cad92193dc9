// One RAM number, and where every byte of it went.
//
// Whoever holds memory that grows with the population or with the user's settings holds a MemoryCharge for it. The
// budget never hands out more than its limit, so the report (and the tests, and the planner, which read the same tags)
// cannot lie. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace shoal {

enum class MemoryTag : std::uint8_t {
  kArena,   // frames: the hot tier
  kCold,    // RocksDB's block cache and memtables, compression scratch
  kIo,      // rings, bounce buffers, request queues
  kTables,  // slot table, frame table, per-node residency
  kPlan,    // access plans and their use index
};
inline constexpr std::size_t kMemoryTagCount = 5;
std::string_view name(MemoryTag tag);

class MemoryBudget;

// Move-only; gives the bytes back when destroyed.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  MemoryCharge(MemoryCharge&& other) noexcept;
  MemoryCharge& operator=(MemoryCharge&& other) noexcept;
  ~MemoryCharge() { release(); }

  std::uint64_t bytes() const { return bytes_; }
  void release() noexcept;

 private:
  friend class MemoryBudget;
  MemoryCharge(MemoryBudget* budget, MemoryTag tag, std::uint64_t bytes) : budget_(budget), tag_(tag), bytes_(bytes) {}

  MemoryBudget* budget_ = nullptr;
  MemoryTag tag_ = MemoryTag::kArena;
  std::uint64_t bytes_ = 0;
};

class MemoryBudget {
 public:
  explicit MemoryBudget(std::uint64_t limit) : limit_(limit) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // Throws Error, naming what was asked for and what is left, when the limit would be passed.
  MemoryCharge charge(MemoryTag tag, std::uint64_t bytes);

  std::uint64_t limit() const { return limit_; }
  std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  std::uint64_t available() const { return limit_ - used(); }
  std::uint64_t used(MemoryTag tag) const {
    return by_tag_[static_cast<std::size_t>(tag)].load(std::memory_order_relaxed);
  }

 private:
  friend class MemoryCharge;
  void give_back(MemoryTag tag, std::uint64_t bytes) noexcept;

  std::uint64_t limit_;
  std::atomic<std::uint64_t> used_{0};
  std::array<std::atomic<std::uint64_t>, kMemoryTagCount> by_tag_{};
};

}  // namespace shoal
