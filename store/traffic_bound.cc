#include "store/traffic_bound.h"

#include <algorithm>
#include <cmath>

namespace shoal {

TrafficBound::TrafficBound(const StateLayout& layout, NodeId nodes) {
  for (const Part part : kParts) {
    // Without a payload a record is all zeros, which are stored nowhere.
    bytes_[index(part)] = layout.payload_bytes(part) == 0 ? 0 : static_cast<double>(layout.record_bytes(part));
    past_[index(part)].resize(nodes);
  }
}

std::uint64_t TrafficBound::bytes_for(NodeId nodes) { return kPartCount * sizeof(Past) * nodes; }

double TrafficBound::first_gap(const Past& past, std::uint32_t step, double price, Before before) const {
  const double earlier = before == Before::kAsCharged ? now_ - past.price : price * (now_steps_ - past.time);
  return earlier + price * step;
}

// In units of one record: a move costs 1, keeping for n steps costs n * price.
double TrafficBound::public_cost(const UseIndex& round, NodeId node, double price, Before before) const {
  const auto uses = round.uses(node);
  const Past& past = past_[index(Part::kPublic)][node];
  const bool write_due = past.unsaved && round.acts(node);
  double each_gap_cheapest = 0;
  double all_kept = 0;
  if (!uses.empty()) {
    all_kept = past.in_ram ? first_gap(past, uses.front(), price, before) : 1.0;
    each_gap_cheapest = std::min(1.0, all_kept);
  }
  for (std::size_t i = 1; i < uses.size(); ++i) {
    const double gap = price * (uses[i] - uses[i - 1]);
    each_gap_cheapest += std::min(1.0, gap);
    all_kept += gap;
  }
  // The version dies this round. If it was never written, it was kept from its making to its last use.
  if (write_due && !uses.empty()) return std::min(each_gap_cheapest + 1.0, all_kept);
  return each_gap_cheapest;
}

double TrafficBound::private_cost(const UseIndex& round, NodeId node, double price, Before before) const {
  const std::uint32_t step = round.private_step(node);
  if (step == kNever || round.plan().kind(step) == StepKind::kCreate) return 0;
  const Past& past = past_[index(Part::kPrivate)][node];
  if (past.maybe_zero) return 0;
  if (!past.in_ram) return 1.0;
  const double write = past.unsaved && round.acts(node) ? 1.0 : 0.0;
  return std::min(1.0 + write, first_gap(past, step, price, before));
}

double TrafficBound::cost(const UseIndex& round, double price, Before before) const {
  double total = 0;
  const auto nodes = static_cast<NodeId>(past_[0].size());
  for (NodeId node = 0; node < nodes; ++node) {
    total += bytes_[index(Part::kPublic)] * public_cost(round, node, price, before);
    total += bytes_[index(Part::kPrivate)] * private_cost(round, node, price, before);
  }
  return total;
}

void TrafficBound::advance(const UseIndex& round, double price) {
  const auto nodes = static_cast<NodeId>(past_[0].size());
  for (NodeId node = 0; node < nodes; ++node) {
    const auto uses = round.uses(node);
    const std::uint32_t step = round.private_step(node);
    Past& published = past_[index(Part::kPublic)][node];
    if (round.acts(node)) {
      published = {now_ + price * step, now_steps_ + step, true, true, false};
    } else if (!uses.empty()) {
      published.price = now_ + price * uses.back();
      published.time = now_steps_ + uses.back();
      published.in_ram = true;
    }
    if (step == kNever) continue;
    Past& own = past_[index(Part::kPrivate)][node];
    own.price = now_ + price * step;
    own.time = now_steps_ + step;
    own.in_ram = true;
    if (round.acts(node)) {
      own.maybe_zero = round.plan().kind(step) == StepKind::kCreate;
      own.unsaved = !own.maybe_zero;
    }
  }
  now_ += price * round.steps();
  now_steps_ += round.steps();
}

// Any price gives a bound. The best one for this round alone would live on what earlier rounds charged and leave
// nothing to later ones (0 for ever, for a stream of which half fits); the best one if it had always been the price is
// what a steady run settles at.
double TrafficBound::best_price(const UseIndex& round, double byte_steps) const {
  const auto bound = [&](double price) { return cost(round, price, Before::kAtThisPrice) - price * byte_steps; };
  // Concave in the price. At 0 nothing pays for RAM; above 1 no gap of even one step is worth it.
  double low = std::log(0.125 / round.steps());
  double high = 0;
  constexpr double kGolden = 0.6180339887498949;
  double left = high - kGolden * (high - low);
  double right = low + kGolden * (high - low);
  double at_left = bound(std::exp(left));
  double at_right = bound(std::exp(right));
  for (int i = 0; i < 20; ++i) {
    if (at_left >= at_right) {
      high = right;
      right = left;
      at_right = at_left;
      left = high - kGolden * (high - low);
      at_left = bound(std::exp(left));
    } else {
      low = left;
      left = right;
      at_left = at_right;
      right = low + kGolden * (high - low);
      at_right = bound(std::exp(right));
    }
  }
  if (std::max(at_left, at_right) <= bound(0)) return 0;
  return std::exp(at_left >= at_right ? left : right);
}

std::uint64_t TrafficBound::add_round(const UseIndex& round, std::uint64_t arena_bytes) {
  if (round.steps() == 0) return 0;
  const double byte_steps = static_cast<double>(arena_bytes) * round.steps();
  const double price = best_price(round, byte_steps);
  bound_ += cost(round, price, Before::kAsCharged) - price * byte_steps;
  advance(round, price);
  // Bytes are never unmoved, so the highest bound so far stays one.
  const double more = std::floor(std::max(0.0, bound_ - reported_));
  reported_ += more;
  return static_cast<std::uint64_t>(more);
}

}  // namespace shoal
