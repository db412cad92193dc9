// Record transfers over a device: cut into requests, kept to the device's depth, handed over in batches. What lies
// together on disk is handed over together, for a device that can move it with one request.
//
// A transfer is known by its frame; `finished` is called on the engine thread when its last request is done. An error
// becomes an Error that names file, slot and what the device said. Owned by the engine thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "store/frame_cache.h"
#include "store/io_device.h"
#include "store/slab.h"

namespace shoal {

class SlabIo {
 public:
  // Large records go out in requests of this size: more in flight, and no request holds the queue for long.
  static constexpr std::uint32_t kRequestBytes = 1 << 20;

  SlabIo(IoDevice& device, FrameCache& cache, std::array<Slab*, kPartCount> slabs, unsigned submit_batch);

  void start(IoRequest::Op op, FrameId frame, Slot slot);
  // Hands queued requests to the device until `most` are under way.
  void submit(unsigned most);
  // Collects completions, submits, and calls finished(frame, op) for transfers that are complete. Throws on a failed
  // one.
  void collect(WaitMode mode, const std::function<void(FrameId, IoRequest::Op)>& finished);

  bool idle() const { return outstanding_ == 0 && head_ == queue_.size(); }
  bool queued() const { return head_ != queue_.size(); }
  // After a failure: forgets what is queued and waits for what the device still has, so that frames may go.
  void drain() noexcept;

  std::uint64_t bytes_read() const { return bytes_[0]; }
  std::uint64_t bytes_written() const { return bytes_[1]; }

 private:
  struct Pending {
    IoRequest request;
    Slot slot;
    bool taken = false;  // in the queue: submitted out of turn
  };
  bool may_take() const { return outstanding_ + batch_.size() < most_ && batch_.size() < submit_batch_; }
  void take(Pending& pending);
  void take_neighbours(std::size_t first);
  [[noreturn]] void fail(const IoCompletion& done, const Pending& pending) const;

  IoDevice& device_;
  FrameCache& cache_;
  std::array<Slab*, kPartCount> slabs_;
  unsigned submit_batch_;
  std::vector<Pending> queue_;  // [head_, end) not yet submitted
  std::size_t head_ = 0;
  std::vector<Pending> flying_;  // by tag
  std::vector<std::uint32_t> free_tags_;
  std::vector<IoRequest> batch_;
  std::vector<IoCompletion> done_;
  std::vector<std::pair<FrameId, IoRequest::Op>> finished_;
  unsigned outstanding_ = 0;
  unsigned most_ = 0;
  std::uint64_t bytes_[2] = {0, 0};
};

}  // namespace shoal
