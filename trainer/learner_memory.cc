#include "trainer/learner_memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace shoal {
namespace {

struct PerWorker {
  std::uint64_t bytes_per_sample = 0;
  std::uint64_t bytes = 0;
  std::uint64_t at_least = 0;
  const char* how = "";
  bool uses_torch = true;
};

// Kernels and buffers that LibTorch brings in with the first step.
constexpr std::uint64_t kTorchBytes = 8 << 20;
// Test images are scored by so many at once (EvaluateWork), and a forward pass alone keeps less.
constexpr std::uint64_t kTestBatch = 64;
constexpr double kForwardShare = 0.3;

PerWorker per_worker(const Experiment& experiment) {
  const std::string& model = experiment.options.model;
  std::uint64_t outputs = 0;  // units of all dense layers
  for (const TensorSpec& spec : experiment.model->parameters()) {
    if (spec.shape.size() == 1) outputs += static_cast<std::uint64_t>(spec.shape[0]);
  }
  if (!experiment.model->needs_data()) return {0, 0, 0, "none", false};
  if (model == "lenet5") return {12 << 10, 0, 0, "measured", false};
  // Small batches: oneDNN's copies of the largest layers' weights and gradients. Several workers: heaps of their own.
  if (model == "resnet18") {
    const std::uint64_t heap = experiment.options.threads > 1 ? 16 << 20 : 0;
    return {35 << 18, heap, 40 << 20, "measured"};
  }
  if (model.starts_with("mlp")) return {outputs * 3 * sizeof(float), 0, 0, "3 floats a unit"};
  return {0, 2 * experiment.layout->flat_size() * sizeof(float), 0, "not known: twice the weights assumed"};
}

}  // namespace

LearnerMemory learner_memory(const Experiment& experiment) {
  const TrainOptions& options = experiment.options;
  const PerWorker worker = per_worker(experiment);
  const std::uint64_t evaluated =
      options.eval_nodes == 0 ? 0 : std::min<std::uint64_t>(options.eval_samples, kTestBatch);
  const std::uint64_t samples = std::max<std::uint64_t>(
      options.batch, static_cast<std::uint64_t>(kForwardShare * static_cast<double>(evaluated)));
  const std::uint64_t bytes = worker.bytes + std::max(worker.at_least, worker.bytes_per_sample * samples);
  LearnerMemory memory;
  const bool on_device = options.device.starts_with("cuda");
  const std::uint64_t once = worker.uses_torch ? kTorchBytes : 0;
  memory.host_bytes = on_device ? once : options.threads * bytes + once;
  memory.formula =
      fmt::format("{} workers x ({} samples x {} B, at least {} B, + {} B), {}; LibTorch's kernels {} B",
                  options.threads, samples, worker.bytes_per_sample, worker.at_least, worker.bytes, worker.how, once);
  const std::uint64_t flat = experiment.layout->flat_size() * sizeof(float);
  memory.untouched_bytes = flat;
  memory.untouched_formula = "the first model's second copy";
  if (!on_device) return memory;
  const DataSetShape shape = experiment.model->needs_data() ? data_set_shape(options.data) : DataSetShape{};
  const std::uint64_t batch = options.batch * (shape.image.pixels() * sizeof(float) + sizeof(std::int64_t));
  const std::uint64_t buffers = experiment.layout->buffers_bytes();
  memory.formula = "the device's";
  memory.device_bytes = options.threads * (2 * flat + buffers + batch + bytes);
  memory.device_formula = fmt::format(
      "{} workers x (weights {} B, gradient {} B, buffers {} B, batch {} B, "
      "activations {} B); the CUDA context comes on top",
      options.threads, flat, flat, buffers, batch, bytes);
  return memory;
}

}  // namespace shoal
