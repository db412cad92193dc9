// The results are the same bits on every machine: the loops are compiled for AVX2 and for plain x86-64 but never with
// fused multiply-adds (CMakeLists.txt: -ffp-contract=off), and divisions and square roots round correctly everywhere.
#include "trainer/optimizer.h"

#include <cmath>

#include "pipeline/vector_clones.h"
#include "store/error.h"

namespace shoal {
namespace {

// base, point and out may be one array, so they are not __restrict; ivdep tells the compiler all that is true: no
// element depends on another.
struct Arrays {
  explicit Arrays(const OptimizerPass& pass)
      : base(pass.base), point(pass.point), gradient(pass.gradient), out(pass.out), size(pass.size) {}

  const float* base;
  const float* point;
  const float* gradient;
  float* out;
  std::size_t size;
};

struct SgdConstants {
  float learning_rate;
  float weight_decay;
  float momentum;
};

SHOAL_VECTOR_CLONES void plain_sgd(const Arrays arrays, const SgdConstants constants) {
  const auto [base, point, gradient, out, size] = arrays;
  const auto [learning_rate, weight_decay, momentum] = constants;
#pragma GCC ivdep
  for (std::size_t k = 0; k < size; ++k) {
    out[k] = base[k] - learning_rate * (gradient[k] + weight_decay * point[k]);
  }
}

SHOAL_VECTOR_CLONES void heavy_ball_sgd(const Arrays arrays, const SgdConstants constants, float* __restrict velocity) {
  const auto [base, point, gradient, out, size] = arrays;
  const auto [learning_rate, weight_decay, momentum] = constants;
#pragma GCC ivdep
  for (std::size_t k = 0; k < size; ++k) {
    const float slope = gradient[k] + weight_decay * point[k];
    const float v = momentum * velocity[k] + slope;
    velocity[k] = v;
    out[k] = base[k] - learning_rate * v;
  }
}

SHOAL_VECTOR_CLONES void nesterov_sgd(const Arrays arrays, const SgdConstants constants, float* __restrict velocity) {
  const auto [base, point, gradient, out, size] = arrays;
  const auto [learning_rate, weight_decay, momentum] = constants;
#pragma GCC ivdep
  for (std::size_t k = 0; k < size; ++k) {
    const float slope = gradient[k] + weight_decay * point[k];
    const float v = momentum * velocity[k] + slope;
    velocity[k] = v;
    out[k] = base[k] - learning_rate * (slope + momentum * v);
  }
}

struct AdamConstants {
  float beta1;
  float beta2;
  float one_minus_beta1;
  float one_minus_beta2;
  float step_size;    // learning rate / (1 - beta1^step)
  float second_root;  // sqrt(1 - beta2^step)
  float epsilon;
  float coupled_decay;    // Adam: part of the gradient, so it goes through the moments
  float decoupled_decay;  // AdamW: learning rate * weight decay, straight from the point
};

SHOAL_VECTOR_CLONES void adam(const Arrays arrays, const AdamConstants c, float* __restrict first,
                              float* __restrict second) {
  const auto [base, point, gradient, out, size] = arrays;
#pragma GCC ivdep
  for (std::size_t k = 0; k < size; ++k) {
    const float slope = gradient[k] + c.coupled_decay * point[k];
    const float m = c.beta1 * first[k] + c.one_minus_beta1 * slope;
    const float v = c.beta2 * second[k] + c.one_minus_beta2 * slope * slope;
    first[k] = m;
    second[k] = v;
    const float denominator = std::sqrt(v) / c.second_root + c.epsilon;
    out[k] = base[k] - c.decoupled_decay * point[k] - c.step_size * (m / denominator);
  }
}

class Sgd : public Optimizer {
 public:
  explicit Sgd(const OptimizerOptions& options) : options_(options) {
    if (options.momentum != 0) slots_ = {"momentum"};
  }

  const std::vector<std::string>& slots() const override { return slots_; }

  void apply(const OptimizerPass& pass) const override {
    SHOAL_CHECK(pass.slots.size() == slots_.size());
    const Arrays arrays(pass);
    const SgdConstants constants = {static_cast<float>(pass.learning_rate), static_cast<float>(options_.weight_decay),
                                    static_cast<float>(options_.momentum)};
    if (slots_.empty()) {
      plain_sgd(arrays, constants);
    } else if (options_.nesterov) {
      nesterov_sgd(arrays, constants, pass.slots[0]);
    } else {
      heavy_ball_sgd(arrays, constants, pass.slots[0]);
    }
  }

 private:
  OptimizerOptions options_;
  std::vector<std::string> slots_;
};

enum class Decay { kCoupled, kDecoupled };

class Adam : public Optimizer {
 public:
  Adam(const OptimizerOptions& options, Decay decay) : options_(options), decay_(decay) {}

  const std::vector<std::string>& slots() const override { return slots_; }

  void apply(const OptimizerPass& pass) const override {
    SHOAL_CHECK(pass.slots.size() == slots_.size() && pass.step >= 1);
    const auto step = static_cast<double>(pass.step);
    const double first_correction = 1 - std::pow(options_.beta1, step);
    const double second_correction = 1 - std::pow(options_.beta2, step);
    const bool coupled = decay_ == Decay::kCoupled;
    // In double first, as PyTorch does: 1 - 0.999 in float is off by 5e-5 of itself.
    AdamConstants constants;
    constants.beta1 = static_cast<float>(options_.beta1);
    constants.beta2 = static_cast<float>(options_.beta2);
    constants.one_minus_beta1 = static_cast<float>(1 - options_.beta1);
    constants.one_minus_beta2 = static_cast<float>(1 - options_.beta2);
    constants.step_size = static_cast<float>(pass.learning_rate / first_correction);
    constants.second_root = static_cast<float>(std::sqrt(second_correction));
    constants.epsilon = static_cast<float>(options_.epsilon);
    constants.coupled_decay = coupled ? static_cast<float>(options_.weight_decay) : 0;
    constants.decoupled_decay = coupled ? 0 : static_cast<float>(pass.learning_rate * options_.weight_decay);
    adam(Arrays(pass), constants, pass.slots[0], pass.slots[1]);
  }

 private:
  OptimizerOptions options_;
  Decay decay_;
  std::vector<std::string> slots_ = {"first_moment", "second_moment"};
};

}  // namespace

std::vector<std::string> optimizer_names() { return {"sgd", "adam", "adamw"}; }

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options) {
  if (options.name == "sgd") return std::make_unique<Sgd>(options);
  if (options.name == "adam") return std::make_unique<Adam>(options, Decay::kCoupled);
  SHOAL_CHECK(options.name == "adamw");
  return std::make_unique<Adam>(options, Decay::kDecoupled);
}

}  // namespace shoal
