#include "store/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include "store/error.h"
#include "store/size_text.h"

namespace shoal {
namespace {

// madvise succeeds even where huge pages are switched off, so ask the system.
bool huge_pages_allowed() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  std::getline(file, line);
  return !line.empty() && line.find("[never]") == std::string::npos;
}

// From a huge page's boundary on, so that all but the end of it can be huge pages.
std::byte* map_aligned(std::uint64_t bytes, int access) {
  const std::uint64_t spare = bytes + kHugePageBytes;
  void* const mapped = ::mmap(nullptr, spare, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw_errno(fmt::format("mapping {} for the arena", size_text(bytes)), errno);
  auto* const begin = static_cast<std::byte*>(mapped);
  const auto address = reinterpret_cast<std::uintptr_t>(mapped);
  const std::uint64_t before = round_up(address, kHugePageBytes) - address;
  if (before > 0) ::munmap(begin, before);
  ::munmap(begin + before + bytes, spare - before - bytes);
  return begin + before;
}

}  // namespace

Frame::Frame(Frame&& other) noexcept
    : arena_(std::exchange(other.arena_, nullptr)), number_(other.number_), part_(other.part_) {}

Frame& Frame::operator=(Frame&& other) noexcept {
  if (this != &other) {
    release();
    arena_ = std::exchange(other.arena_, nullptr);
    number_ = other.number_;
    part_ = other.part_;
  }
  return *this;
}

std::byte* Frame::data() const { return arena_->data(part_, number_); }

void Frame::release() noexcept {
  if (arena_ == nullptr) return;
  // Never allocates: the vector's capacity is the most there can be.
  if (number_ < arena_->count_[index(part_)]) arena_->free_[index(part_)].push_back(number_);
  arena_ = nullptr;
}

Arena::Arena(const ArenaOptions& options, const StateLayout& layout, MemoryBudget& budget)
    : bytes_((options.region.empty() ? options.bytes : options.region.size()) / kBlockBytes * kBlockBytes),
      record_bytes_{layout.record_bytes(Part::kPublic), layout.record_bytes(Part::kPrivate)},
      charge_(budget.charge(MemoryTag::kArena, bytes_)) {
  for (const Part part : kParts) free_[index(part)].reserve(most_frames(part));
  if (!options.region.empty()) {
    region_ = options.region;
    SHOAL_CHECK(reinterpret_cast<std::uintptr_t>(region_.data()) % kBlockBytes == 0);
  } else {
    region_ = {map_aligned(bytes_, options.addresses_only ? PROT_NONE : PROT_READ | PROT_WRITE), bytes_};
    mapped_here_ = true;
    if (options.huge_pages == Want::kTry) {
      const bool given = huge_pages_allowed() && ::madvise(region_.data(), region_.size(), MADV_HUGEPAGE) == 0;
      modes_.push_back({"huge pages", "transparent", given ? "transparent" : "none",
                        given ? "" : "transparent huge pages are switched off on this machine"});
    }
  }
  if (options.page_lock == Want::kTry) {
    const bool given = ::mlock(region_.data(), region_.size()) == 0;
    modes_.push_back({"page lock", "locked", given ? "locked" : "not locked",
                      given ? "" : fmt::format("mlock: {}; raise 'ulimit -l'", errno_text(errno))});
  }
}

Arena::~Arena() { count_only(); }

void Arena::count_only() {
  if (mapped_here_) ::munmap(region_.data(), region_.size());
  mapped_here_ = false;
  region_ = {};
  modes_.clear();
}

std::byte* Arena::data(Part part, std::uint32_t number) const {
  if (region_.empty()) return nullptr;
  const std::uint64_t size = record_bytes_[index(part)];
  return part == Part::kPublic ? region_.data() + number * size
                               : region_.data() + bytes_ - (number + std::uint64_t{1}) * size;
}

void Arena::split(std::uint32_t public_frames, std::uint32_t private_frames) {
  SHOAL_CHECK(public_frames * record_bytes_[0] + private_frames * record_bytes_[1] <= bytes_);
  const std::array<std::uint32_t, kPartCount> wanted = {public_frames, private_frames};
  for (const Part part : kParts) {
    std::uint32_t& count = count_[index(part)];
    auto& free = free_[index(part)];
    std::erase_if(free, [&](std::uint32_t number) { return number >= wanted[index(part)]; });
    for (std::uint32_t number = count; number < wanted[index(part)]; ++number) free.push_back(number);
    count = wanted[index(part)];
    // Lowest on top: a population that fits leaves the rest of the region untouched.
    std::sort(free.begin(), free.end(), std::greater<>());
  }
}

Frame Arena::take(Part part) {
  auto& free = free_[index(part)];
  if (free.empty()) return {};
  const std::uint32_t number = free.back();
  free.pop_back();
  return Frame(this, part, number);
}

}  // namespace shoal
