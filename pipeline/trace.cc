#include "pipeline/trace.h"

#include <algorithm>

namespace shoal {

Trace::Trace(std::size_t node_events, std::size_t round_events, Clock::time_point start) : start_(start) {
  nodes_.events.resize(node_events);
  rounds_.events.resize(round_events);
}

void Trace::Shelf::put(const Event& event) noexcept {
  const std::size_t place = asked.fetch_add(1, std::memory_order_relaxed);
  if (place < events.size()) events[place] = event;
}

std::size_t Trace::Shelf::taken() const { return std::min(asked.load(), events.size()); }

Trace::Event Trace::event(const char* name, std::uint32_t lane, Clock::time_point from, Clock::time_point to,
                          std::uint64_t number) const noexcept {
  return {name, lane, std::chrono::nanoseconds(from - start_).count(), std::chrono::nanoseconds(to - from).count(),
          number};
}

void Trace::add(const char* name, std::uint32_t lane, Clock::time_point from, Clock::time_point to,
                std::uint64_t node) noexcept {
  if (takes_nodes_.load(std::memory_order_relaxed)) nodes_.put(event(name, lane, from, to, node));
}

void Trace::add_to_round(const char* name, Clock::time_point from, Clock::time_point to, std::uint64_t round) noexcept {
  rounds_.put(event(name, kRoundLane, from, to, round));
}

void Trace::end_round(Clock::time_point from, Clock::time_point to, std::uint64_t round) noexcept {
  add_to_round("round", from, to, round);
  if (rounds_.full()) return;
  ++drawn_rounds_;
  if (nodes_.full()) return;
  ++whole_rounds_;
  whole_events_ = nodes_.asked;
}

// A round that is too large for the memory alone is drawn as far as it goes: better than none.
std::size_t Trace::shown_node_events() const {
  return nodes_.full() && whole_rounds_ > 0 ? whole_events_ : nodes_.taken();
}

Trace::Report Trace::report() const {
  Report report;
  report.events = shown_node_events() + rounds_.taken();
  report.left_out = nodes_.asked + rounds_.asked - report.events;
  report.rounds = drawn_rounds_;
  report.rounds_with_nodes = whole_rounds_;
  return report;
}

const Trace::Event& Trace::drawn(std::size_t number) const {
  const std::size_t rounds = rounds_.taken();
  return number < rounds ? rounds_.events[number] : nodes_.events[number - rounds];
}

}  // namespace shoal
