#include "store/cold_worker.h"

#include <utility>

namespace shoal {

ColdWorker::ColdWorker(ColdTier* tier, std::size_t most_jobs, std::function<void()> notify)
    : tier_(tier), notify_(std::move(notify)) {
  asked_.reserve(most_jobs);
  done_.reserve(most_jobs);
  if (tier_ != nullptr) thread_ = std::thread([this] { run(); });
}

ColdWorker::~ColdWorker() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void ColdWorker::ask(const ColdJob& job) {
  ++outstanding_;
  {
    const std::scoped_lock lock(mutex_);
    (tier_ == nullptr ? done_ : asked_).push_back(job);
  }
  changed_.notify_one();
}

void ColdWorker::collect(std::vector<ColdJob>& done) {
  done.clear();
  if (outstanding_ == 0) return;
  const std::scoped_lock lock(mutex_);
  std::swap(done, done_);
  outstanding_ -= done.size();
}

bool ColdWorker::has_results() {
  if (outstanding_ == 0) return false;
  const std::scoped_lock lock(mutex_);
  return !done_.empty();
}

void ColdWorker::run() {
  std::vector<ColdJob> jobs;
  for (;;) {
    jobs.clear();
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !asked_.empty(); });
      if (asked_.empty()) return;
      std::swap(jobs, asked_);
    }
    for (ColdJob& job : jobs) {
      try {
        if (job.op == ColdJob::Op::kGet) {
          tier_->get(job.epoch, job.part, job.node, job.record);
        } else {
          tier_->put(job.epoch, job.part, job.node, job.record);
        }
      } catch (...) {
        job.error = std::current_exception();
      }
      {
        const std::scoped_lock lock(mutex_);
        done_.push_back(job);
      }
      notify_();
    }
  }
}

}  // namespace shoal
