#include "trainer/quadratic.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "store/error.h"
#include "trainer/random.h"

namespace shoal {
namespace {

class QuadraticLearner : public Learner {
 public:
  explicit QuadraticLearner(const QuadraticOptions& options) : options_(options) {}

  double gradient(NodeId node, std::uint64_t step, const Batch&, const float* parameters, std::byte*,
                  float* gradient) override {
    // Drawn anew each time: to keep a and b of every node would take as much memory as the models.
    const QuadraticObjective objective = quadratic_objective(options_, node);
    RandomStream noise(options_.seed, Purpose::kModelNoise, node, step);
    for (std::size_t k = 0; k < options_.dimension; ++k) {
      double slope = objective.a[k] * (static_cast<double>(parameters[k]) - objective.b[k]);
      if (options_.sigma > 0) slope += options_.sigma * noise.normal();
      gradient[k] = static_cast<float>(slope);
    }
    return objective.value(parameters);
  }

  // There are no samples, and a score belongs to no node.
  Score score(const Batch&, const float*, const std::byte*) override { return {}; }

 private:
  QuadraticOptions options_;
};

class QuadraticModel : public Model {
 public:
  explicit QuadraticModel(const QuadraticOptions& options)
      : Model({{"x", DType::kFloat32, {static_cast<std::int64_t>(options.dimension)}, Part::kPublic}}, {}),
        options_(options) {}

  bool needs_data() const override { return false; }

  void initialize(std::uint64_t seed, NodeId node, float* parameters, std::byte*) const override {
    RandomStream stream(seed, Purpose::kInitialModel, node);
    for (std::size_t k = 0; k < flat_size(); ++k) parameters[k] = static_cast<float>(stream.normal());
  }

  std::unique_ptr<Learner> make_learner() const override { return std::make_unique<QuadraticLearner>(options_); }

 private:
  QuadraticOptions options_;
};

// Takes the next ":number" off `text`, if there is one.
template <class Number>
bool take_number(std::string_view& text, Number& number) {
  if (text.empty()) return true;
  const char* const end = text.data() + text.size();
  if (text.front() != ':') return false;
  const auto [next, error] = std::from_chars(text.data() + 1, end, number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(next - text.data()));
  return true;
}

}  // namespace

QuadraticOptions parse_quadratic(const std::string& spec, std::uint64_t seed) {
  QuadraticOptions options;
  options.seed = seed;
  constexpr std::size_t kMostDimensions = std::size_t{1} << 30;
  constexpr std::string_view kName = "quadratic";
  std::string_view rest = spec;
  bool good = rest.substr(0, kName.size()) == kName;
  if (good) rest.remove_prefix(kName.size());
  good = good && take_number(rest, options.dimension) && take_number(rest, options.zeta) &&
         take_number(rest, options.sigma) && rest.empty();
  good = good && options.dimension > 0 && options.dimension <= kMostDimensions;
  good = good && options.zeta >= 0 && options.zeta < 1e30 && options.sigma >= 0 && options.sigma < 1e30;
  if (!good) {
    throw Error(fmt::format("--model {}: write quadratic[:D[:ZETA[:SIGMA]]] with D from 1 to {} and "
                            "ZETA and SIGMA not negative, for example quadratic:100:1:0.1",
                            spec, kMostDimensions),
                ExitCode::kUsage);
  }
  return options;
}

double QuadraticObjective::value(const float* x) const {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const double distance = static_cast<double>(x[k]) - b[k];
    sum += a[k] * distance * distance;
  }
  return sum / 2;
}

QuadraticObjective quadratic_objective(const QuadraticOptions& options, NodeId node) {
  QuadraticObjective objective;
  objective.a.resize(options.dimension);
  objective.b.resize(options.dimension);
  RandomStream stream(options.seed, Purpose::kOracle, node);
  for (double& a : objective.a) a = 0.5 + stream.uniform();
  for (double& b : objective.b) b = 1 + options.zeta * stream.normal();
  return objective;
}

std::vector<double> quadratic_optimum(const QuadraticOptions& options, NodeId nodes) {
  std::vector<double> weighted(options.dimension, 0.0);
  std::vector<double> weights(options.dimension, 0.0);
  for (NodeId node = 0; node < nodes; ++node) {
    const QuadraticObjective objective = quadratic_objective(options, node);
    for (std::size_t k = 0; k < options.dimension; ++k) {
      weighted[k] += objective.a[k] * objective.b[k];
      weights[k] += objective.a[k];
    }
  }
  for (std::size_t k = 0; k < options.dimension; ++k) weighted[k] /= weights[k];
  return weighted;
}

std::unique_ptr<Model> make_quadratic(const QuadraticOptions& options) {
  return std::make_unique<QuadraticModel>(options);
}

}  // namespace shoal
