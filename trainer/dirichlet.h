// Gamma and Dirichlet variates from a RandomStream. The standard library's use as many numbers as they like; these are
// the same with every library, as far as its log, sin and cos are.
#pragma once

#include <span>

#include "trainer/random.h"

namespace shoal {

// The logarithm of a Gamma(shape, 1) variate: for small shapes the variate itself underflows. Shape > 0.
double log_gamma_variate(double shape, RandomStream& random);

// Fills `weights` with a draw from the symmetric Dirichlet(concentration); they sum to 1.
void draw_dirichlet(double concentration, RandomStream& random, std::span<double> weights);

}  // namespace shoal
