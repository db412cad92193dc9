#include "store/slab_io.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "store/error.h"

namespace shoal {
namespace {

constexpr std::size_t kLookAhead = 64;  // queued requests that are looked at for neighbours of one

}  // namespace

SlabIo::SlabIo(IoDevice& device, FrameCache& cache, std::array<Slab*, kPartCount> slabs, unsigned submit_batch)
    : device_(device), cache_(cache), slabs_(slabs), submit_batch_(std::max(1u, submit_batch)) {
  flying_.resize(device.depth());
  for (std::uint32_t tag = device.depth(); tag-- > 0;) free_tags_.push_back(tag);
  batch_.reserve(device.depth());
  done_.reserve(device.depth());
  finished_.reserve(device.depth());
  queue_.reserve(4096);
}

void SlabIo::start(IoRequest::Op op, FrameId frame, Slot slot) {
  Cached& entry = cache_[frame];
  const Slab& slab = *slabs_[index(entry.part)];
  for (std::uint64_t at = 0; at < slab.slot_bytes(); at += kRequestBytes) {
    IoRequest request;
    request.op = op;
    request.file = slab.file();
    request.offset = slab.offset(slot) + at;
    request.data = entry.record + at;
    request.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(kRequestBytes, slab.slot_bytes() - at));
    request.tag = frame;
    if (queue_.size() == queue_.capacity() && head_ > 0) {
      queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
    queue_.push_back({request, slot, false});
    ++entry.transfers;
  }
}

void SlabIo::submit(unsigned most) {
  most_ = std::min(most, device_.depth());
  while (head_ != queue_.size() && outstanding_ < most_) {
    batch_.clear();
    while (head_ != queue_.size() && may_take()) {
      const std::size_t first = batch_.size();
      take(queue_[head_]);
      take_neighbours(first);
      while (head_ != queue_.size() && queue_[head_].taken) ++head_;
    }
    outstanding_ += static_cast<unsigned>(batch_.size());
    device_.submit(batch_);
  }
  if (head_ == queue_.size()) {
    queue_.clear();
    head_ = 0;
  }
}

void SlabIo::take(Pending& pending) {
  const std::uint32_t tag = free_tags_.back();
  free_tags_.pop_back();
  pending.taken = true;
  flying_[tag] = pending;
  batch_.push_back(pending.request);
  batch_.back().tag = tag;
}

// What is queued and lies before or behind the request that was taken last goes with it, in the order of the file.
void SlabIo::take_neighbours(std::size_t first) {
  std::uint64_t begin = batch_[first].offset;
  std::uint64_t end = begin + batch_[first].length;
  const std::size_t last = std::min(queue_.size(), head_ + kLookAhead);
  for (bool found = true; found;) {
    found = false;
    for (std::size_t i = head_; i < last; ++i) {
      if (!may_take()) return;
      Pending& pending = queue_[i];
      const IoRequest& request = pending.request;
      if (pending.taken || request.op != batch_[first].op || request.file != batch_[first].file) continue;
      if (end - begin + request.length > kRequestBytes) continue;
      if (request.offset == end) {
        end += request.length;
        take(pending);
      } else if (request.offset + request.length == begin) {
        begin = request.offset;
        take(pending);
        std::rotate(batch_.begin() + static_cast<std::ptrdiff_t>(first), batch_.end() - 1, batch_.end());
      } else {
        continue;
      }
      found = true;
    }
  }
}

void SlabIo::collect(WaitMode mode, const std::function<void(FrameId, IoRequest::Op)>& finished) {
  done_.clear();
  device_.wait(mode, done_);
  // All of them are off the device's hands before anything may throw.
  outstanding_ -= static_cast<unsigned>(done_.size());
  finished_.clear();
  const IoCompletion* failed = nullptr;
  for (const IoCompletion& done : done_) {
    const Pending& pending = flying_[done.tag];
    const auto frame = static_cast<FrameId>(pending.request.tag);
    free_tags_.push_back(static_cast<std::uint32_t>(done.tag));
    if (done.result != pending.request.length && failed == nullptr) failed = &done;
    bytes_[pending.request.op == IoRequest::Op::kRead ? 0 : 1] += pending.request.length;
    if (--cache_[frame].transfers == 0) finished_.emplace_back(frame, pending.request.op);
  }
  if (failed != nullptr) fail(*failed, flying_[failed->tag]);
  // The device gets its next requests before the checksums of these are looked at: otherwise it idles meanwhile.
  submit(most_);
  for (const auto& [frame, op] : finished_) finished(frame, op);
}

void SlabIo::fail(const IoCompletion& done, const Pending& pending) const {
  const Cached& entry = cache_[static_cast<FrameId>(pending.request.tag)];
  const Slab& slab = *slabs_[index(entry.part)];
  const bool reading = pending.request.op == IoRequest::Op::kRead;
  const std::string what = done.result < 0
                               ? errno_text(static_cast<int>(-done.result))
                               : fmt::format("{} of {} bytes were transferred", done.result, pending.request.length);
  throw Error(fmt::format("{} the {} record of node {}, {}, {} bytes at offset {}: {}{}",
                          reading ? "reading" : "writing", name(entry.part), entry.node, slab.describe(pending.slot),
                          pending.request.length, pending.request.offset, what,
                          done.result == -ENOSPC ? "; free some space and resume from the last checkpoint" : ""));
}

void SlabIo::drain() noexcept {
  for (; head_ != queue_.size(); ++head_) {
    if (!queue_[head_].taken) --cache_[static_cast<FrameId>(queue_[head_].request.tag)].transfers;
  }
  for (int broken = 0; outstanding_ > 0;) {
    done_.clear();
    try {
      device_.wait(WaitMode::kBlock, done_);
    } catch (const std::exception&) {
      // The first cause is what the user hears; here only the device's hold on our memory matters. One that cannot even
      // be asked any more leaves no safe way to go on.
      SHOAL_CHECK(++broken < 1000);
      continue;
    }
    outstanding_ -= static_cast<unsigned>(done_.size());
    for (const IoCompletion& done : done_) {
      free_tags_.push_back(static_cast<std::uint32_t>(done.tag));
      --cache_[static_cast<FrameId>(flying_[done.tag].request.tag)].transfers;
    }
  }
}

}  // namespace shoal
