// A thread that compresses and decompresses, so that the engine thread never does: single records into and out of the
// cold tier.
//
// Jobs run in order. Results wait in a list that the engine collects after the `notify` callback woke it. Without a
// tier (a rehearsal) there is no thread, and a job is done as soon as it is asked for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "store/cold_tier.h"
#include "store/frame_cache.h"

namespace shoal {

struct ColdJob {
  enum class Op : std::uint8_t { kGet, kPut };
  Op op = Op::kGet;
  FrameId frame = kNoFrame;
  Part part = Part::kPublic;
  NodeId node = kNoNode;
  Epoch epoch = 0;
  std::span<std::byte> record;
  std::exception_ptr error;  // set when the job failed
};

class ColdWorker {
 public:
  ColdWorker(ColdTier* tier, std::size_t most_jobs, std::function<void()> notify);
  ~ColdWorker();  // finishes what was asked for

  void ask(const ColdJob& job);
  void collect(std::vector<ColdJob>& done);  // replaces the contents
  bool has_results();
  std::size_t outstanding() const { return outstanding_; }  // asked for and not collected; engine thread

 private:
  void run();

  ColdTier* tier_;
  std::function<void()> notify_;
  std::size_t outstanding_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ColdJob> asked_;
  std::vector<ColdJob> done_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace shoal
