#include "store/memory_budget.h"

#include <fmt/format.h>

#include <utility>

#include "store/error.h"
#include "store/size_text.h"

namespace shoal {

std::string_view name(MemoryTag tag) {
  switch (tag) {
    case MemoryTag::kArena: return "arena";
    case MemoryTag::kCold: return "cold";
    case MemoryTag::kIo: return "io";
    case MemoryTag::kTables: return "tables";
    case MemoryTag::kPlan: return "plan";
  }
  return "?";
}

MemoryCharge::MemoryCharge(MemoryCharge&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)), tag_(other.tag_), bytes_(std::exchange(other.bytes_, 0)) {}

MemoryCharge& MemoryCharge::operator=(MemoryCharge&& other) noexcept {
  if (this != &other) {
    release();
    budget_ = std::exchange(other.budget_, nullptr);
    tag_ = other.tag_;
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void MemoryCharge::release() noexcept {
  if (budget_ != nullptr) budget_->give_back(tag_, bytes_);
  budget_ = nullptr;
  bytes_ = 0;
}

MemoryCharge MemoryBudget::charge(MemoryTag tag, std::uint64_t bytes) {
  std::uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ - used) {
      throw Error(fmt::format("out of the RAM budget: {} for '{}' asked, {} of {} left; give more RAM",
                              size_text(bytes), name(tag), size_text(limit_ - used), size_text(limit_)),
                  ExitCode::kUsage);
    }
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  by_tag_[static_cast<std::size_t>(tag)].fetch_add(bytes, std::memory_order_relaxed);
  return MemoryCharge(this, tag, bytes);
}

void MemoryBudget::give_back(MemoryTag tag, std::uint64_t bytes) noexcept {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  by_tag_[static_cast<std::size_t>(tag)].fetch_sub(bytes, std::memory_order_relaxed);
}

}  // namespace shoal
