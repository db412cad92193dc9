// What the nodes learn. A Model describes the parameters and makes Learners; a Learner, one per worker thread, computes
// gradients and scores on memory that belongs to somebody else (a frame), without copying it.
//
// Parameters are float32 and lie in one flat run at the start of the public record, each at the 64-byte aligned offset
// that StateLayout gives it; the gaps between them are zeros and stay zeros, so that mixing and the optimizer are one
// pass over flat_size() floats. A gradient has the same layout. Buffers (BatchNorm's) follow.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/state_layout.h"
#include "store/types.h"
#include "trainer/batch.h"
#include "trainer/data_set.h"

namespace shoal {

struct Score {
  std::uint64_t samples = 0;
  std::uint64_t correct = 0;
  double loss = 0;  // mean over the samples
};

class Learner {
 public:
  virtual ~Learner() = default;

  // The gradient of the batch's mean loss at `parameters`, which are only read; `buffers` are updated by the forward
  // pass; every float of `gradient` is written (gaps: zero). Returns the loss. Node and step matter only to models that
  // make their own data or draw random numbers.
  virtual double gradient(NodeId node, std::uint64_t step, const Batch& batch, const float* parameters,
                          std::byte* buffers, float* gradient) = 0;
  virtual Score score(const Batch& batch, const float* parameters, const std::byte* buffers) = 0;
};

class Model {
 public:
  virtual ~Model() = default;

  // In order; all of Part::kPublic.
  const std::vector<TensorSpec>& parameters() const { return parameters_; }
  const std::vector<TensorSpec>& buffers() const { return buffers_; }
  std::uint64_t parameter_count() const;                // as papers count: without gaps and buffers
  std::size_t flat_size() const { return flat_size_; }  // floats, gaps included
  std::uint64_t buffers_offset() const;                 // bytes from the start of the public record
  std::uint64_t buffers_bytes() const;                  // gaps included
  virtual bool needs_data() const { return true; }
  // Gradients that draw random numbers (dropout) are computed one at a time: LibTorch has one generator for a process.
  virtual bool random() const { return false; }
  // The seed's initial state of a node; all of flat_size() floats and buffers_bytes() are written.
  virtual void initialize(std::uint64_t seed, NodeId node, float* parameters, std::byte* buffers) const = 0;
  virtual std::unique_ptr<Learner> make_learner() const = 0;

 protected:
  Model(std::vector<TensorSpec> parameters, std::vector<TensorSpec> buffers);

 private:
  std::vector<TensorSpec> parameters_;
  std::vector<TensorSpec> buffers_;
  std::size_t flat_size_ = 0;
  std::uint64_t buffers_bytes_ = 0;
};

struct ModelOptions {
  std::string spec;  // lenet5, resnet18, mlp:784-128-10, quadratic:D:ZETA:SIGMA, script:FILE
  DataSetShape data;
  std::uint64_t seed = 1;
  std::string device = "cpu";  // cpu, cuda, cuda:1
};
// A usage Error for a model that does not fit the data, a file that is no TorchScript, a device that is not there.
std::unique_ptr<Model> make_model(const ModelOptions& options);
std::string model_choices();  // for --help

// Before any Learner is made: threads that one operation may use (LibTorch, OpenMP, BLAS), and the allocator's settings
// (without them LibTorch maps its activations anew in each step: 800 page faults for LeNet-5).
void prepare_tensor_library(unsigned intra_op_threads);
// On each worker thread, once.
void prepare_worker_thread(unsigned intra_op_threads);

}  // namespace shoal
