// What the pipeline does with nodes: make them, train them, score them, look at them. One class per kind of round.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "pipeline/node_pipeline.h"
#include "store/checkpoint_reader.h"
#include "trainer/algorithm.h"
#include "trainer/fixed_sum.h"
#include "trainer/population.h"
#include "trainer/progress.h"
#include "trainer/share.h"
#include "trainer/state_hash.h"
#include "trainer/worker.h"

namespace shoal {

// The first state of every record.
class CreateWork : public StepWork {
 public:
  // `same`: what all nodes start from; null: each node gets its own, from the seed.
  CreateWork(const Model& model, const NodeLayout& layout, const Share& share, std::uint64_t seed,
             const std::vector<std::byte>* same, Population& population, Progress& progress);
  void mix(NodeLease&, unsigned) override {}
  void compute(NodeLease& lease, unsigned worker) override;

 private:
  const Model& model_;
  const NodeLayout& layout_;
  const Share& share_;
  std::uint64_t seed_;
  const std::vector<std::byte>* same_;
  Population& population_;
  Progress& progress_;
};

// Records that come from the stores of a run with another number of ranks.
class MoveWork : public StepWork {
 public:
  // `before` says which store of `former` has which node.
  MoveWork(const NodeLayout& layout, const Share& share, const Share& before, const std::vector<StoreOptions>& former,
           Progress& progress);
  void mix(NodeLease&, unsigned) override {}
  void compute(NodeLease& lease, unsigned worker) override;

 private:
  struct Source {
    std::mutex mutex;
    std::unique_ptr<CheckpointReader> reader;  // opened when it is first needed
  };
  const NodeLayout& layout_;
  const Share& share_;
  const Share& before_;
  const std::vector<StoreOptions>& former_;
  Progress& progress_;
  std::vector<Source> sources_;
};

struct RoundFigures {
  FixedSum loss_sum;  // over nodes that trained
  std::uint64_t trained = 0;
  std::uint64_t node_steps = 0;  // local steps
  std::string warning;           // of one of the nodes

  double loss() const;  // mean over nodes that trained; NaN when none did
};

class TrainWork : public StepWork {
 public:
  // `slowness`: how many times as long as it takes a step is made to last, for experiments with stragglers.
  TrainWork(const Algorithm& algorithm, const NodeLayout& layout, const Share& share,
            const std::vector<std::unique_ptr<Worker>>& workers, Population& population, std::uint32_t places,
            double slowness);

  void begin(std::uint64_t round, const RoundPlan& plan, double learning_rate, unsigned local_steps);
  void mix(NodeLease& lease, unsigned worker) override;
  void compute(NodeLease& lease, unsigned worker) override;
  RoundFigures figures();  // of the round; once

 private:
  // A step's pointers, filled in mix() and used again in compute(), by place of the lease.
  struct Desk {
    NodeStep step;
    std::vector<const float*> inputs;
    std::vector<const std::byte*> input_buffers;
    std::vector<float> weights;
    std::vector<float*> slots;
    RecordCheck private_check;
  };
  struct alignas(64) WorkerFigures {
    FixedSum loss;
    std::uint64_t trained = 0;
    std::string warning;
  };
  void lay_out(NodeLease& lease, Desk& desk, std::span<RecordCheck> checks) const;

  const Algorithm& algorithm_;
  const NodeLayout& layout_;
  const Share& share_;
  const std::vector<std::unique_ptr<Worker>>& workers_;
  Population& population_;
  const double slowness_;
  const bool rule_keeps_state_;  // in private records, which it may change in mix()
  std::vector<Desk> desks_;
  std::vector<std::vector<RecordCheck>> checks_;  // by worker
  std::vector<WorkerFigures> figures_;

  std::uint64_t round_ = 0;
  const RoundPlan* plan_ = nullptr;
  double learning_rate_ = 0;
  unsigned local_steps_ = 0;
};

// Models against test images.
class EvaluateWork : public StepWork {
 public:
  EvaluateWork(const NodeLayout& layout, const std::vector<std::unique_ptr<Worker>>& workers, const Sampler* sampler,
               std::uint32_t samples);
  void begin(std::size_t models);
  void mix(NodeLease&, unsigned) override {}
  void compute(NodeLease& lease, unsigned worker) override;
  Score score(Worker& worker, const float* parameters, const std::byte* buffers) const;
  const std::vector<Score>& scores() const { return scores_; }  // by step of the plan
  // Other ranks' share of the models: what one packs, the first rank takes, each under its number among all.
  std::vector<std::byte> pack(const std::vector<std::uint32_t>& numbers) const;
  void unpack(const std::vector<std::vector<std::byte>>& packed, std::size_t models);
  // The mean of the buffers of what was evaluated, for the mean model.
  std::vector<std::byte> mean_buffers() const;

 private:
  const NodeLayout& layout_;
  const std::vector<std::unique_ptr<Worker>>& workers_;
  const Sampler* sampler_;
  std::uint32_t samples_;
  std::vector<Score> scores_;
  std::vector<std::vector<std::byte>> buffers_;
};

// The last look at every record: the hash of the state, and a line per node.
class InspectWork : public StepWork {
 public:
  struct NodeLine {
    double loss = 0;
    std::uint64_t steps = 0;
    Version version = 0;
  };
  // `population` may be null; otherwise every node is added to it.
  InspectWork(const NodeLayout& layout, const Share& share, unsigned threads, Population* population);
  void mix(NodeLease&, unsigned) override {}
  void compute(NodeLease& lease, unsigned worker) override;
  StateHash hash() const;
  const std::vector<NodeLine>& lines() const { return lines_; }  // by the store's number of the node

 private:
  struct alignas(64) WorkerHash {
    StateHash hash;
  };
  const NodeLayout& layout_;
  const Share& share_;
  std::vector<WorkerHash> hashes_;
  std::vector<NodeLine> lines_;
  Population* population_;
};

}  // namespace shoal
