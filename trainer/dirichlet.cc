#include "trainer/dirichlet.h"

#include <algorithm>
#include <cmath>

namespace shoal {

// Marsaglia and Tsang 2000; below 1 by Gamma(a) = Gamma(a + 1) U^(1/a).
double log_gamma_variate(double shape, RandomStream& random) {
  if (shape < 1) {
    const double larger = log_gamma_variate(shape + 1, random);
    return larger + std::log1p(-random.uniform()) / shape;
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = random.normal();
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log1p(-random.uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return std::log(d * v);
  }
}

void draw_dirichlet(double concentration, RandomStream& random, std::span<double> weights) {
  for (double& weight : weights) weight = log_gamma_variate(concentration, random);
  const double largest = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - largest);
  for (double& weight : weights) weight /= sum;
}

}  // namespace shoal
