// Sums of vectors, element by element, over all nodes and ranks: in fixed point, so they are exact, and the same bits
// in any order. AR-SGD adds up gradients with it.
//
// Elements below 1024 are rounded to 2^-41 (coarser beyond 2^11 vectors, so that the sum fits 64 bits). Larger ones are
// integers in units of 2^-13 already, as float32 has no finer, and add up in a second vector. add() is thread-safe; the
// rest belongs between sums.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace shoal {

class ExactSums {
 public:
  // Of at most so many vectors.
  ExactSums(std::size_t size, std::uint64_t vectors);

  std::size_t size() const { return fine_.size(); }
  void clear();
  // Onto the elements from `first` on. False: one is beyond limit() or not a number, and the sums are worth nothing.
  bool add(std::span<const float> values, std::size_t first = 0);
  double limit() const { return limit_; }
  // `sum` adds up number by number over all ranks.
  void add_ranks(const std::function<void(std::span<std::int64_t>)>& sum);

  bool exceeded() const { return exceeded_; }
  double sum(std::size_t element) const;  // a NaN once exceeded()

  static std::uint64_t bytes_for(std::size_t size) { return size * 2 * sizeof(std::int64_t); }

 private:
  const double scale_;
  const double limit_;
  std::vector<std::int64_t> fine_;
  std::vector<std::int64_t> coarse_;
  std::unique_ptr<std::mutex[]> chunk_mutexes_;
  std::atomic<bool> any_coarse_{false};
  std::atomic<bool> exceeded_{false};
};

}  // namespace shoal
