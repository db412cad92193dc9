// What the operations of a TorchScript say about it, without running it.
#pragma once

#include <torch/script.h>

#include <optional>
#include <string>

namespace shoal {

struct ScriptTraits {
  bool random = false;  // it may draw from LibTorch's generator
  // The operation, if there is one, that trains whatever the module's mode is.
  std::optional<std::string> always_trains;
};

ScriptTraits traits_of(const torch::jit::Module& module);

}  // namespace shoal
