// A run as the planner sees it: what a record is made of, how RAM is divided, and who acts when. Whoever knows the
// program's flags fills it in (trainer/describe.h); nothing here knows LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/access_plan.h"
#include "store/disk_need.h"
#include "store/store_options.h"

namespace shoal {

// A part of one node's record.
struct StateItem {
  std::string name;
  Part part = Part::kPublic;
  std::uint64_t bytes = 0;
  std::string formula;  // how the bytes come about, for people
};

struct MemoryLine {
  std::string what;
  std::uint64_t bytes = 0;
  std::string formula;
};

// Another rank's read of one of this rank's records.
struct ReadByOther {
  NodeId node = kNoNode;
  float when = 0;  // as a share of the round
  float gap = 0;   // since that rank read it before; kFirst: it did not
  static constexpr float kFirst = std::numeric_limits<float>::infinity();
};

struct PlannedRound {
  std::shared_ptr<const AccessPlan> accesses;
  std::uint64_t local_steps = 0;                              // of all the rank's nodes together
  std::shared_ptr<const std::vector<ReadByOther>> by_others;  // in the order of their time; null: one rank
};
// Called for rounds 0, 1, 2, ... in order.
using Schedule = std::function<PlannedRound(std::uint64_t round)>;

struct RunDescription {
  std::string model;
  std::string graph;
  std::string algorithm;
  std::string optimizer;
  std::string device = "cpu";
  NodeId nodes = 0;
  std::uint64_t parameters = 0;
  std::uint64_t rounds = 0;
  std::uint32_t batch = 0;
  unsigned threads = 1;
  unsigned intra_op = 1;
  std::vector<StateItem> items;
  std::uint64_t flat_bytes = 0;  // what is mixed of a public record

  // One rank's RAM. `store` has what is left of ram_bytes after the program's own; its nodes are the rank's records.
  StoreOptions store;
  std::uint64_t ram_bytes = 0;
  std::uint64_t least_ram_bytes = 0;
  std::uint64_t resident_ram_bytes = 0;  // from which rounds touch no disk, and more changes nothing
  std::vector<MemoryLine> program;       // RAM outside of the store, by purpose
  std::uint64_t program_bytes = 0;
  std::uint64_t untouched_bytes = 0;  // of program_bytes: set aside, and not used by a run like this one
  std::string untouched_formula;
  std::uint64_t library_bytes = 0;     // LibTorch and code: comes on top of ram_bytes
  std::uint64_t activation_bytes = 0;  // of all workers: on top as well
  std::string activation_formula;
  std::uint64_t device_memory_bytes = 0;  // 0: no device
  std::string device_memory_formula;
  SlotUse slot_use;
  DiskNeed most_disk;  // at most; with what rehearsals say, the least of both is what must be free
  DiskNeed stop_disk;  // at most, with the checkpoint that SIGTERM makes
  bool fits_ram() const { return ram_bytes >= least_ram_bytes; }

  // Time.
  bool all_act = true;
  std::uint64_t checkpoint_every = 0;  // 0: never
  std::uint64_t eval_every = 0;        // 0: never
  std::vector<NodeId> evaluated;
  std::vector<NodeId> order;  // in which records are created and inspected
  std::function<Schedule()> start;
  // What other graphs of the kind there are.
  NodeId least_sample = 0;                      // from so many nodes on it looks the same to each of them; 0: never
  std::function<NodeId(NodeId)> nodes_at_most;  // that it can have, up to so many; 0: none
  std::vector<std::string> sparser_graphs;      // with fewer neighbours, the most first

  // Several ranks. Where the population is not split (all-reduce), all of them are alike, and there are no guests.
  unsigned ranks = 1;
  bool split = false;
  std::vector<bool> far_guests;  // of the records that others own and this rank reads: whose owner is on another host
  std::uint64_t edges = 0;
  std::uint64_t cut_edges = 0;  // between nodes of different ranks
  NodeId split_sample = 0;      // so many nodes were split, and the figures are scaled from that; 0: all

  std::uint64_t guests() const { return store.guests; }
  std::uint64_t records() const { return store.nodes; }
  // That act in a step of this rank. Where one record stands for all of them, ranks divide them among themselves.
  double nodes_per_step() const { return split || records() == nodes ? 1 : 1.0 * nodes / ranks; }
};

// What a sweep or a piece of advice asks for instead of what the user gave.
struct RunChange {
  unsigned rank = 0;  // whose share is described
  std::optional<std::uint64_t> ram_bytes;

  std::optional<unsigned> ranks;  // in all
  std::optional<unsigned> hosts;
  std::optional<unsigned> threads;
  std::optional<NodeId> nodes;
  std::optional<NodeId> sample_of;  // `nodes` stand for so many: degrees stay what they are
  std::optional<std::uint32_t> batch;
  std::optional<std::string> graph;
  std::optional<std::string> algorithm;
  std::optional<std::uint64_t> checkpoint_every;
  std::optional<std::uint64_t> warm_bytes;  // with the cold tier on a disk of its own
  bool plain_sgd = false;                   // without momentum: an optimizer that keeps nothing

  friend bool operator==(const RunChange&, const RunChange&) = default;
  // The same run, whoever's share of it and with whatever RAM.
  bool same_run(const RunChange& other) const;
  std::string flags() const;  // "--nodes 100 --checkpoint-every 0"
};
using Describe = std::function<RunDescription(const RunChange&)>;

}  // namespace shoal
