// An algorithm = a plan and a rule. The plan says who acts in a round, whom each reads and how many local steps it
// makes; the rule turns a node's own state, its neighbours' and gradients into its next state.
//
// One file per algorithm, which registers itself: see docs/adding-an-algorithm.md. plan() belongs to one thread; mix()
// and train() are called by several workers at once and change nothing but the step they are given.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "store/access_plan.h"
#include "store/state_layout.h"
#include "trainer/graph.h"
#include "trainer/option_form.h"
#include "trainer/worker.h"

namespace shoal {

struct TrainOptions;

struct RoundPlan {
  std::shared_ptr<const AccessPlan> accesses;
  std::vector<std::uint16_t> local_steps;  // of each step of the plan; empty: --local-steps for all
};

// The ranks, for rules that compute one thing together. `sum` adds up number by number over all ranks, exactly; it is
// empty for a rank alone.
struct Team {
  unsigned rank = 0;
  unsigned size = 1;
  std::function<void(std::span<std::int64_t>)> sum;
};

// What an algorithm is made from. All outlive it.
struct AlgorithmContext {
  const TrainOptions& options;
  const Graph& graph;
  const std::vector<NodeId>& order;  // all nodes, neighbours close together
  const Team& team;
};

class Algorithm {
 public:
  // Of expected_work(): a record that is copied, mixed or added to others. Mixing nine of LeNet-5 takes some 90 us of a
  // core, a local step 1.2 ms or more. Larger batches and convolutions make it less, small batches of flat models more.
  static constexpr double kRecordWork = 0.01;

  explicit Algorithm(const AlgorithmContext& context) : context_(context) {}
  virtual ~Algorithm() = default;

  // What it keeps in a node's private record, by name: flat vectors of the size of the parameters, and single words
  // (NodeScalars::of_algorithm). All are zeros at first.
  virtual std::vector<std::string> slots() const { return {}; }
  virtual std::vector<std::string> scalars() const { return {}; }
  // Records in the store: one per node, unless all nodes hold the same. Then every rank keeps them.
  virtual NodeId records() const { return context_.graph.nodes(); }
  // The most that one step, and all steps of a round, read.
  virtual std::size_t max_reads() const = 0;
  virtual std::uint64_t max_reads_per_round() const = 0;
  // Flat vectors that a worker holds while it trains: its gradient; one more where the rule uses Worker::scratch().
  // Part of --ram, as is what the rule keeps for itself beside them.
  virtual std::size_t vectors_per_worker() const { return 1; }
  virtual std::uint64_t own_bytes(const NodeLayout&) const { return 0; }
  // Whether every record is updated in every round, and every round is like round 0.
  virtual bool all_act() const { return true; }

  // A node's part of a round in the mean over rounds, a local training step being 1: ranks get nodes of the same work.
  // The same number on every rank, whatever its machine: + - * / are, std::pow need not be. As it stands, the node acts
  // and trains in every round and reads all its neighbours, or max_reads() of them.
  virtual double expected_work(NodeId node) const;

  // Called for rounds 0, 1, 2, ... in order, each once; after a resume from 0 again. Where all act, what round 0 says
  // holds for every round, and is also asked for beforehand: how much disk it takes follows from it.
  virtual RoundPlan plan(std::uint64_t round) = 0;
  // Fills step.next from step.current and step.reads.
  virtual void mix(NodeStep& step) const = 0;
  // Makes step.local_steps local steps.
  virtual void train(NodeStep& step, Worker& worker) const = 0;

 protected:
  // The values of the options that its file registers.
  std::string text(const std::string& option) const;
  bool flag(const std::string& option) const;
  std::uint64_t whole(const std::string& option) const;
  double real(const std::string& option) const;

  const AlgorithmContext context_;
};

struct AlgorithmEntry {
  std::string name;
  std::string summary;  // one line for --help
  // Flags and TOML keys of its own. Several algorithms may have the same one.
  std::vector<OptionForm> options = {};
  std::function<std::unique_ptr<Algorithm>(const AlgorithmContext&)> make;
};

// `const RegisterAlgorithm kRegistered({.name = "dpsgd", ...});` in the algorithm's file.
class RegisterAlgorithm {
 public:
  explicit RegisterAlgorithm(AlgorithmEntry entry);
};

const std::map<std::string, AlgorithmEntry>& algorithms();
std::vector<std::string> algorithm_names();
std::string algorithm_choices();  // for --help
// The one that the options name.
std::unique_ptr<Algorithm> make_algorithm(const AlgorithmContext& context);

// The value that the options have for an option of an algorithm.
std::string algorithm_option(const TrainOptions& options, const std::string& name);

// Options of algorithms that mix with all neighbours, and what they say.
OptionForm mixing_option();
OptionForm average_buffers_option();
Mixing mixing_of(const TrainOptions& options);

// A round in which every node acts, in the given order, and reads all its neighbours (or none).
enum class Neighbours { kAll, kNone };
std::shared_ptr<const AccessPlan> everybody_acts(const Graph& graph, const std::vector<NodeId>& order,
                                                 Neighbours neighbours);

}  // namespace shoal
