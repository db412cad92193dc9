// Leases on their way from the engine to workers: an unbounded-looking queue that is bounded by what the store lets
// fly.
//
// For callers without a task graph of their own (tests, the benchmark). push() and close() never block. Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "store/state_store.h"

namespace shoal {

class ReadyQueue {
 public:
  void push(NodeLease lease) {
    {
      const std::scoped_lock lock(mutex_);
      leases_.push_back(std::move(lease));
    }
    changed_.notify_one();
  }

  void close() {
    {
      const std::scoped_lock lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

  void reopen() {
    const std::scoped_lock lock(mutex_);
    closed_ = false;
  }

  // Waits; nothing when the queue is closed and empty.
  std::optional<NodeLease> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !leases_.empty(); });
    if (leases_.empty()) return std::nullopt;
    NodeLease lease = std::move(leases_.front());
    leases_.pop_front();
    return lease;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<NodeLease> leases_;
  bool closed_ = false;
};

}  // namespace shoal
