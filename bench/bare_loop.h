// Training N models that all stay in RAM, with no exchange, no store and no metrics: what shoal-train is measured
// against.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "store/types.h"

namespace shoal::bench {

struct BareLoopOptions {
  std::string model = "lenet5";
  std::string data = "synthetic-mnist";
  std::string optimizer = "sgd";
  double learning_rate = 0.05;
  std::uint32_t batch = 64;
  NodeId nodes = 10'000;
  unsigned threads = 2;
  unsigned rounds = 2;
};

// Model-steps a second. The first: as a user of LibTorch writes it, modules and torch::optim; only lenet5 and resnet18.
// The second: the learner and optimizer of shoal-train in a plain loop.
double libtorch_loop(const BareLoopOptions& options);
double learner_loop(const BareLoopOptions& options);

// LeNet-5 as a TorchScript file: shoal-train then computes with LibTorch's kernels too.
void write_lenet5_script(const std::filesystem::path& file);

}  // namespace shoal::bench
