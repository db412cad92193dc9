// Optimizers as one fused pass over flat memory. Stateless but for the slots, which are the node's private record.
// Immutable; shared between threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace shoal {

// In range: whoever takes them from a user has checked them.
struct OptimizerOptions {
  std::string name = "sgd";  // sgd, adam, adamw
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

// One local step: out[k] = base[k] - lr * u[k], where u is what the optimizer makes of gradient[k] taken at point[k]
// (weight decay looks at point) and the slots, which it updates. base, point and out may be the same memory.
struct OptimizerPass {
  const float* base = nullptr;
  const float* point = nullptr;
  const float* gradient = nullptr;
  float* out = nullptr;
  std::span<float* const> slots;
  std::size_t size = 0;
  double learning_rate = 0;
  std::uint64_t step = 1;  // of this node, from 1: bias correction
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual const std::vector<std::string>& slots() const = 0;  // "momentum"; "first_moment", "second_moment"
  virtual void apply(const OptimizerPass& pass) const = 0;
};

std::vector<std::string> optimizer_names();
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options);

// A usage Error for a schedule that is none of constant, step:EVERY:FACTOR, cosine (to zero at the last round), each
// after `warmup` rounds of linear rise.
class LearningRate {
 public:
  LearningRate(const std::string& schedule, double base, std::uint64_t warmup, std::uint64_t rounds);
  double at(std::uint64_t round) const;  // rounds from 0

 private:
  enum class Kind { kConstant, kStep, kCosine };
  Kind kind_ = Kind::kConstant;
  double base_;
  std::uint64_t warmup_;
  std::uint64_t rounds_;
  std::uint64_t every_ = 1;
  double factor_ = 1;
};

}  // namespace shoal
