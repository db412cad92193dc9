// A population in plain memory that goes through its rounds one node after the other, as their definition says. The
// second implementation of what the store, the pipeline and shoal-train do: they must agree with it to the bit.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "trainer/experiment.h"
#include "trainer/worker.h"

namespace shoal {

class PlainPopulation {
 public:
  explicit PlainPopulation(const TrainOptions& options);

  void run(std::uint64_t rounds);
  const Experiment& experiment() const { return experiment_; }
  NodeId records() const { return experiment_.algorithm->records(); }
  std::uint64_t rounds_done() const { return rounds_done_; }
  const float* model(NodeId record) const { return layout().parameters(records_[record].shared.data()); }
  std::vector<double> mean() const;
  double consensus_distance() const;
  double loss() const { return loss_; }                    // mean over those that trained in the last round
  const std::string& warning() const { return warning_; }  // the last
  std::string state_hash() const;

 private:
  // Memory that is aligned as a frame's is.
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  struct Bytes {
    explicit Bytes(std::uint64_t size = 0) : lines((size + 63) / 64, Line{}) {}
    std::byte* data() { return lines.empty() ? nullptr : lines.front().bytes; }
    const std::byte* data() const { return lines.empty() ? nullptr : lines.front().bytes; }
    std::vector<Line> lines;
  };
  struct Record {
    Bytes shared;
    Bytes own;
  };

  const NodeLayout& layout() const { return *experiment_.layout; }
  void run_round();

  Experiment experiment_;
  LearningRate learning_rate_;
  std::vector<std::unique_ptr<Worker>> workers_;  // one
  WorkerContext context_;
  std::vector<Record> records_;
  std::uint64_t rounds_done_ = 0;
  double loss_ = 0;
  std::string warning_;
};

}  // namespace shoal
