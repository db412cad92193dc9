// The oracle for tests: each node has its own quadratic, so fixed points and biases are known in closed form.
//
//   f_i(x) = 1/2 sum_k a_ik (x_k - b_ik)^2,   a uniform in [0.5, 1.5],   b normal with mean 1 and deviation zeta
//
// zeta is how much the nodes disagree; sigma is the deviation of the noise on each coordinate of a gradient. Needs
// neither data nor LibTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/model.h"

namespace shoal {

struct QuadraticOptions {
  std::size_t dimension = 64;
  double zeta = 1;
  double sigma = 0;
  std::uint64_t seed = 1;
};
// quadratic[:D[:ZETA[:SIGMA]]]; a usage Error for anything else.
QuadraticOptions parse_quadratic(const std::string& spec, std::uint64_t seed);

struct QuadraticObjective {
  std::vector<double> a;
  std::vector<double> b;

  double value(const float* x) const;
};
QuadraticObjective quadratic_objective(const QuadraticOptions& options, NodeId node);
// The minimum of the mean of f_0 .. f_{nodes-1}: sum_i a_i b_i / sum_i a_i in each coordinate.
std::vector<double> quadratic_optimum(const QuadraticOptions& options, NodeId nodes);

std::unique_ptr<Model> make_quadratic(const QuadraticOptions& options);

}  // namespace shoal
