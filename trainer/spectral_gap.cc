#include "trainer/spectral_gap.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "trainer/random.h"

namespace shoal {
namespace {

constexpr double kTolerance = 1e-9;
constexpr double kLooseTolerance = 1e-3;  // once half the work is done: the gap to about 1 %

// S = D^1/2 W D^-1/2, which is symmetric and has W's eigenvalues; D = I for Metropolis, degree + 1 for uniform.
class SymmetricMixing {
 public:
  SymmetricMixing(const Graph& graph, Mixing mixing) : graph_(graph), mixing_(mixing), gathered_(graph.nodes()) {
    top_.resize(graph.nodes());
    for (NodeId i = 0; i < graph.nodes(); ++i) {
      const double share = 1.0 / (1.0 + graph.degree(i));
      gathered_[i].share = mixing == Mixing::kUniform ? std::sqrt(share) : share;
      top_[i] = mixing == Mixing::kUniform ? std::sqrt(1.0 + graph.degree(i)) : 1.0;
    }
    const double length = std::sqrt(std::inner_product(top_.begin(), top_.end(), top_.begin(), 0.0));
    for (double& value : top_) value /= length;
  }

  NodeId size() const { return graph_.nodes(); }
  double work() const { return 2.0 * static_cast<double>(graph_.edges()) + 4.0 * size(); }
  // The eigenvector of eigenvalue 1, of length 1.
  const std::vector<double>& top() const { return top_; }

  void apply(const std::vector<double>& x, std::vector<double>& y) {
    for (NodeId i = 0; i < size(); ++i) gathered_[i].value = x[i];
    for (NodeId i = 0; i < size(); ++i) {
      const Gathered own = gathered_[i];
      double sum = 0;
      if (mixing_ == Mixing::kMetropolis) {
        // As differences: the own weight needs no pass of its own.
        for (const NodeId j : graph_.neighbours(i)) {
          sum += std::min(own.share, gathered_[j].share) * (gathered_[j].value - own.value);
        }
        y[i] = own.value + sum;
      } else {
        for (const NodeId j : graph_.neighbours(i)) sum += gathered_[j].share * gathered_[j].value;
        y[i] = own.share * (sum + own.share * own.value);
      }
    }
  }

  void remove_top(std::vector<double>& x) const {
    const double part = std::inner_product(x.begin(), x.end(), top_.begin(), 0.0);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] -= part * top_[i];
  }

  // 1 - x'Sx / x'x without the subtraction, which would leave nothing of the gap of a long ring.
  double gap_of(const std::vector<double>& x) const {
    double differences = 0;
    double squares = 0;
    for (NodeId i = 0; i < size(); ++i) {
      for (const NodeId j : graph_.neighbours(i)) {
        const double difference = x[i] / top_[i] - x[j] / top_[j];
        if (i < j) differences += weight(i, j) * top_[i] * top_[j] * difference * difference;
      }
      squares += x[i] * x[i];
    }
    // What is left of a vector that was all `top` is rounding: no direction to judge by.
    return squares > 1e-9 ? differences / squares : 1;
  }

 private:
  // What a neighbour looks up, together: it is one miss of the processor's cache, not two.
  struct Gathered {
    double value = 0;
    double share = 0;
  };

  double weight(NodeId i, NodeId j) const {
    if (mixing_ == Mixing::kMetropolis) return std::min(gathered_[i].share, gathered_[j].share);
    return gathered_[i].share * gathered_[j].share;
  }

  const Graph& graph_;
  Mixing mixing_;
  std::vector<Gathered> gathered_;
  std::vector<double> top_;
};

// Eigenvalues of the tridiagonal matrix that are below `value` (Sturm).
std::size_t count_below(const std::vector<double>& diagonal, const std::vector<double>& side, double value) {
  std::size_t count = 0;
  double pivot = 1;
  for (std::size_t i = 0; i < diagonal.size(); ++i) {
    pivot = diagonal[i] - value - (i == 0 ? 0 : side[i - 1] * side[i - 1] / pivot);
    if (std::abs(pivot) < 1e-300) pivot = -1e-300;
    if (pivot < 0) ++count;
  }
  return count;
}

// The magnitude of the eigenvalue farthest from 0; all are in [-1, 1].
double largest_magnitude(const std::vector<double>& diagonal, const std::vector<double>& side) {
  double low = 0;
  double high = 1;
  while (high - low > 1e-16 + 1e-10 * (1 - low)) {
    const double middle = (low + high) / 2;
    if (middle == low || middle == high) break;
    const bool outside =
        count_below(diagonal, side, middle) < diagonal.size() || count_below(diagonal, side, -middle) > 0;
    (outside ? low : high) = middle;
  }
  return low;
}

// Lanczos without reorthogonalization: it repeats converged eigenvalues, which does not harm the outermost.
SpectralGap lanczos(SymmetricMixing& mixing, std::uint64_t seed, double most_work) {
  const NodeId n = mixing.size();
  RandomStream random(seed, Purpose::kGraph, 0, std::uint64_t{1} << 40);
  std::vector<double> now(n);
  std::vector<double> before(n);
  std::vector<double> next(n);
  for (double& value : now) value = random.uniform() - 0.5;
  mixing.remove_top(now);
  const auto dot = [](const auto& a, const auto& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); };
  double length = std::sqrt(dot(now, now));
  for (double& value : now) value /= length;

  double work = 0;
  std::vector<double> diagonal;
  std::vector<double> side;
  double last = 2;
  std::size_t check = 8;
  while (true) {
    mixing.apply(now, next);
    diagonal.push_back(dot(now, next));
    const double along = diagonal.back();
    const double back = side.empty() ? 0 : side.back();
    for (NodeId i = 0; i < n; ++i) next[i] -= along * now[i] + back * before[i];
    mixing.remove_top(next);
    length = std::sqrt(dot(next, next));
    work += mixing.work();
    const bool exhausted = length < 1e-13;
    if (exhausted || diagonal.size() == check || work >= most_work) {
      const double gap = 1 - largest_magnitude(diagonal, side);
      // The gap found falls like 1 / steps^2 until the true one is resolved, so a standstill over an eighth more steps
      // is convergence.
      const double tolerance = work < most_work / 2 ? kTolerance : kLooseTolerance;
      if (exhausted || std::abs(last - gap) <= tolerance * gap) return {gap, false};
      if (work >= most_work) return {gap, true};
      last = gap;
      check += std::max<std::size_t>(8, check / 8);
    }
    side.push_back(length);
    for (double& value : next) value /= length;
    std::swap(before, now);
    std::swap(now, next);
  }
}

}  // namespace

SpectralGap spectral_gap(const Graph& graph, Mixing mixing, std::uint64_t seed,
                         const std::vector<std::uint32_t>& levels, double most_work) {
  if (graph.nodes() < 2) return {1, false};
  SymmetricMixing symmetric(graph, mixing);
  SpectralGap found = lanczos(symmetric, seed, most_work);
  if (!found.is_bound) return found;
  // One half of the graph against the other, along its length: on a ring, the eigenvector itself.
  const double deepest = *std::max_element(levels.begin(), levels.end());
  std::vector<double> wave(graph.nodes());
  for (NodeId i = 0; i < graph.nodes(); ++i) {
    wave[i] = symmetric.top()[i] * std::cos(std::numbers::pi * levels[i] / deepest);
  }
  symmetric.remove_top(wave);
  found.gap = std::min(found.gap, symmetric.gap_of(wave));
  return found;
}

}  // namespace shoal
