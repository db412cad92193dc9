// A timeline of what the workers did and what was waited for (--trace).
//
// Events go into memory that is taken once, and to a file at the end (trace_file.h). What happens to nodes has a share
// of it: when that is full, later such events are counted and left out, and only rounds that are there in full are
// drawn. What happens to rounds has the rest. Thread-safe: adding is one atomic increment.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace shoal {

using Clock = std::chrono::steady_clock;

class Trace {
 public:
  struct Event {
    const char* name = nullptr;
    std::uint32_t lane = 0;
    std::int64_t from = 0;  // ns since start_
    std::int64_t length = 0;
    std::uint64_t number = 0;  // of the node or round
  };

  static constexpr std::uint64_t kNoNumber = ~std::uint64_t{0};
  static constexpr std::size_t kNodeEvents = 15 << 15;
  static constexpr std::size_t kRoundEvents = 1 << 15;
  // A rank's share of the events of nodes: so many ranks' traces go into one file, as much as a viewer can show, and
  // have as many of its rounds as that of one rank.
  static constexpr std::size_t node_events(unsigned ranks) { return kNodeEvents / ranks; }
  static constexpr std::uint64_t bytes(unsigned ranks) { return (node_events(ranks) + kRoundEvents) * sizeof(Event); }

  // `start` is drawn as zero.
  explicit Trace(std::size_t node_events = kNodeEvents, std::size_t round_events = kRoundEvents,
                 Clock::time_point start = Clock::now());

  // Rows of the picture, beside the workers' 0, 1, ...
  static constexpr std::uint32_t kRoundLane = 1000;
  static constexpr std::uint32_t kReadyLane = 1001;  // nodes for which no worker was free
  static constexpr std::uint32_t kStoreLane = 1002;

  // `name` is a literal. Not taken before start_nodes(): the creation of nodes would take the place of the rounds.
  void add(const char* name, std::uint32_t lane, Clock::time_point from, Clock::time_point to,
           std::uint64_t node = kNoNumber) noexcept;
  void start_nodes() { takes_nodes_ = true; }
  // In the lane of the rounds. Between them, in the same thread, a round ends.
  void add_to_round(const char* name, Clock::time_point from, Clock::time_point to, std::uint64_t round) noexcept;
  void end_round(Clock::time_point from, Clock::time_point to, std::uint64_t round) noexcept;

  struct Report {
    std::uint64_t events = 0;             // that are drawn
    std::uint64_t left_out = 0;           // for lack of memory
    std::uint64_t rounds = 0;             // that are drawn
    std::uint64_t rounds_with_nodes = 0;  // of those, with all that happened to their nodes
  };
  Report report() const;
  // What is drawn, by a number below report().events: first what happened to rounds. When nothing is added any more.
  const Event& drawn(std::size_t number) const;

 private:
  // A share of the memory.
  struct Shelf {
    std::vector<Event> events;
    std::atomic<std::size_t> asked{0};  // events that were to be put there

    void put(const Event& event) noexcept;
    std::size_t taken() const;
    bool full() const { return asked > events.size(); }
  };
  Event event(const char* name, std::uint32_t lane, Clock::time_point from, Clock::time_point to,
              std::uint64_t number) const noexcept;
  std::size_t shown_node_events() const;

  Clock::time_point start_;
  std::atomic<bool> takes_nodes_{false};
  Shelf nodes_;
  Shelf rounds_;
  std::uint64_t drawn_rounds_ = 0;
  std::uint64_t whole_rounds_ = 0;
  std::size_t whole_events_ = 0;  // of nodes, in those
};

}  // namespace shoal
