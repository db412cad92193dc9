#include "tests/trainer/script_files.h"

#include <torch/script.h>

#include <limits>

namespace shoal {
namespace {

// Values that are the same in every test run, and small.
at::Tensor weights(at::IntArrayRef shape) {
  at::Tensor values = at::arange(at::empty(shape).numel(), at::kFloat);
  return (values.sin() * 0.05).reshape(shape).set_requires_grad(true);
}

torch::jit::Module linear_module() {
  torch::jit::Module module("net");
  module.register_parameter("weight", weights({10, 784}), false);
  module.register_parameter("bias", weights({10}), false);
  module.register_attribute("training", c10::BoolType::get(), true);
  return module;
}

}  // namespace

void write_buffered_script(const std::filesystem::path& file) {
  torch::jit::Module module = linear_module();
  module.register_buffer("large", at::full({1}, 2000.0F));
  module.register_buffer("floor", at::full({10}, -std::numeric_limits<float>::infinity()));
  module.register_buffer("mean", at::zeros({1}));
  module.register_buffer("calls", at::zeros({}, at::kLong));
  module.register_buffer("mask", at::arange(784).remainder(7).ne(0));
  module.register_buffer("odd", at::zeros({1}, at::kBool));
  module.define(R"(
    def forward(self, x):
        if self.training:
            self.calls.add_(1)
            self.mean.mul_(0.9).add_(x.mean() * self.large)
            self.odd.logical_not_()
        y = torch.matmul(x.flatten(1) * self.mask, self.weight.t()) + self.bias * self.odd
        return torch.maximum(y, self.floor) + self.large * 0.0001
  )");
  module.save(file.string());
}

void write_batch_norm_script(const std::filesystem::path& file) {
  torch::jit::Module module = linear_module();
  module.register_parameter("scale", at::ones({10}).set_requires_grad(true), false);
  module.register_buffer("mean", at::zeros({10}));
  module.register_buffer("variance", at::ones({10}));
  module.register_buffer("batches", at::zeros({}, at::kLong));
  module.define(R"(
    def forward(self, x):
        if self.training:
            self.batches.add_(1)
        y = torch.matmul(x.flatten(1), self.weight.t())
        return torch.batch_norm(y, self.scale, self.bias, self.mean, self.variance, self.training, 0.1, 0.00001, False)
  )");
  module.save(file.string());
}

void write_dropout_script(const std::filesystem::path& file) {
  torch::jit::Module module = linear_module();
  module.define(R"(
    def forward(self, x):
        x = torch.dropout(x.flatten(1), 0.5, self.training)
        return torch.matmul(x, self.weight.t()) + self.bias
  )");
  module.save(file.string());
}

void write_constant_script(const std::filesystem::path& file, double weight) {
  torch::jit::Module module("net");
  module.register_parameter("weight", at::full({10, 784}, weight).set_requires_grad(true), false);
  module.define(R"(
    def forward(self, x):
        return torch.matmul(x.flatten(1), self.weight.t())
  )");
  module.save(file.string());
}

}  // namespace shoal
