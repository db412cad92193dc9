// script:FILE: any network that was saved as TorchScript and maps images to logits.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/script.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "store/error.h"
#include "trainer/model_kinds.h"
#include "trainer/script_graph.h"
#include "trainer/torch_learner.h"

namespace shoal {
namespace {

using torch::jit::Module;

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw Error(fmt::format("--model script:{}: {}", file, why), ExitCode::kUsage);
}

std::string first_line(const char* text) {
  const std::string all = text;
  return all.substr(0, all.find('\n'));
}

// What takes a byte is kept as one; the module sees it as what it is (ScriptNetwork).
DType dtype_of(const std::string& file, const std::string& name, c10::ScalarType type) {
  switch (type) {
    case c10::kFloat: return DType::kFloat32;
    case c10::kDouble: return DType::kFloat64;
    case c10::kHalf: return DType::kFloat16;
    case c10::kBFloat16: return DType::kBFloat16;
    case c10::kInt: return DType::kInt32;
    case c10::kLong: return DType::kInt64;
    case c10::kByte:
    case c10::kBool:
    case c10::kChar: return DType::kUInt8;
    default:
      refuse(file, fmt::format("the buffer '{}' is of type {}, which Shoal does not store; floats, bool, int8, uint8, "
                               "int32 and int64 it does",
                               name, toString(type)));
  }
}

Module load(const std::string& file) {
  if (!std::filesystem::is_regular_file(file)) refuse(file, "there is no such file");
  try {
    return torch::jit::load(file, c10::kCPU);
  } catch (const std::exception& error) {
    refuse(file, fmt::format("this is not a TorchScript file ({}); write one with torch.jit.script(model).save(FILE), "
                             "not with torch.save",
                             first_line(error.what())));
  }
}

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

struct ModuleTensors {
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> buffers;
};

ModuleTensors tensors_of(const Module& module) {
  ModuleTensors tensors;
  for (const auto& parameter : module.named_parameters())
    tensors.parameters.push_back({parameter.name, parameter.value});
  for (const auto& buffer : module.named_buffers()) tensors.buffers.push_back({buffer.name, buffer.value});
  return tensors;
}

void require_separate(const std::string& file, const Module& module) {
  const ModuleTensors tensors = tensors_of(module);
  std::map<const void*, std::string> seen;
  for (const auto* const kind : {&tensors.parameters, &tensors.buffers}) {
    for (const auto& [name, tensor] : *kind) {
      const auto [other, fresh] = seen.emplace(tensor.data_ptr(), name);
      if (fresh || tensor.numel() == 0) continue;
      refuse(file, fmt::format("'{}' and '{}' share their memory, and a node's record would hold each on its own; have "
                               "one tensor that forward() uses in both places",
                               other->second, name));
    }
  }
}

// "layer.0.weight" in place: what the module computes with from now on is `tensor`.
void replace(Module module, std::string path, const at::Tensor& tensor) {
  for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.')) {
    module = module.attr(path.substr(0, dot)).toModule();
    path.erase(0, dot + 1);
  }
  module.setattr(path, tensor);
}

std::vector<TensorSpec> parameter_specs(const std::string& file, const Module& module) {
  std::vector<TensorSpec> specs;
  bool trainable = false;
  for (const auto& [name, tensor] : tensors_of(module).parameters) {
    trainable = trainable || tensor.requires_grad();
    if (tensor.scalar_type() != c10::kFloat) {
      refuse(file, fmt::format("the parameter '{}' is of type {}, and Shoal trains float32: {}", name,
                               toString(tensor.scalar_type()),
                               tensor.is_floating_point() ? "save model.float()" : "make it a buffer"));
    }
    specs.push_back({name, DType::kFloat32, tensor.sizes().vec(), Part::kPublic});
  }
  require_separate(file, module);
  if (!trainable) refuse(file, "no parameter of it requires a gradient, so there is nothing to train; was it frozen?");
  return specs;
}

std::vector<TensorSpec> buffer_specs(const std::string& file, const Module& module) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : tensors_of(module).buffers) {
    specs.push_back({name, dtype_of(file, name, tensor.scalar_type()), tensor.sizes().vec(), Part::kPublic});
  }
  return specs;
}

class ScriptNetwork : public Network {
 public:
  ScriptNetwork(const Module& module, const BoundTensors& tensors, c10::Device device) : module_(module.deepcopy()) {
    module_.to(device);
    const ModuleTensors own = tensors_of(module_);
    for (std::size_t i = 0; i < own.parameters.size(); ++i) {
      const auto& [name, tensor] = own.parameters[i];
      // Detached is the same memory without a gradient: what the file froze stays as it is.
      replace(module_, name, tensor.requires_grad() ? tensors.parameters[i] : tensors.parameters[i].detach());
    }
    for (std::size_t i = 0; i < own.buffers.size(); ++i) {
      const auto& [name, tensor] = own.buffers[i];
      replace(module_, name, tensors.buffers[i].view(tensor.scalar_type()));
    }
  }

  at::Tensor logits(const at::Tensor& images, Phase phase) override {
    // The executor otherwise rewrites the graph after its first runs, and the same inputs would give other bits.
    const torch::jit::GraphOptimizerEnabledGuard as_written(false);
    set_training(phase == Phase::kTraining);
    return module_.forward({images}).toTensor();
  }

 private:
  // Module::train() insists on the attribute, which a traced or hand-made module may lack.
  void set_training(bool training) {
    if (training_ == training) return;
    for (Module module : module_.modules()) {  // handles
      if (module.hasattr("training")) module.setattr("training", training);
    }
    training_ = training;
  }

  Module module_;
  std::optional<bool> training_;
};

class ScriptModel : public TorchModel {
 public:
  ScriptModel(const std::string& file, const Module& module, const ModelOptions& options)
      : TorchModel(parameter_specs(file, module), buffer_specs(file, module), options), module_(module) {
    const ScriptTraits traits = traits_of(module);
    if (traits.always_trains) {
      refuse(file, fmt::format("its {} cannot be switched off for evaluation: it was traced in training mode, or does "
                               "not ask for self.training; use torch.jit.script(model), with training=self.training",
                               *traits.always_trains));
    }
    random_ = traits.random;
  }

  bool random() const override { return random_; }

  void initialize(std::uint64_t, NodeId, float* parameters, std::byte* buffers) const override {
    std::memset(parameters, 0, flat_size() * sizeof(float));
    if (buffers_bytes() != 0) std::memset(buffers, 0, buffers_bytes());
    std::vector<TensorSpec> all = this->parameters();
    all.insert(all.end(), this->buffers().begin(), this->buffers().end());
    const StateLayout layout(all);
    const ModuleTensors own = tensors_of(module_);
    const auto copy = [](const at::Tensor& tensor, std::byte* to) {
      const at::Tensor dense = tensor.detach().contiguous();
      std::memcpy(to, dense.data_ptr(), dense.nbytes());
    };
    for (const auto& [name, tensor] : own.parameters) {
      copy(tensor, reinterpret_cast<std::byte*>(parameters) + layout.find(name).offset);
    }
    for (const auto& [name, tensor] : own.buffers)
      copy(tensor, buffers + (layout.find(name).offset - buffers_offset()));
  }

  std::unique_ptr<Network> make_network(const BoundTensors& tensors) const override {
    return std::make_unique<ScriptNetwork>(module_, tensors, device());
  }

 private:
  Module module_;
  bool random_ = false;
};

void require_logits(const std::string& file, const Module& module, const DataSetShape& data) {
  const ImageShape& image = data.image;
  const at::NoGradGuard no_grad;
  // Two images, so that BatchNorm in training mode is content; a copy, because it changes the buffers.
  const at::Tensor images = at::zeros({2, image.channels, image.height, image.width});
  at::Tensor logits;
  try {
    logits = module.deepcopy().forward({images}).toTensor();
  } catch (const std::exception& error) {
    refuse(file, fmt::format("it cannot compute on images of {} x {} x {} float32: {}", image.channels, image.height,
                             image.width, first_line(error.what())));
  }
  if (logits.scalar_type() != c10::kFloat || logits.sizes() != at::IntArrayRef({2, data.classes})) {
    refuse(file,
           fmt::format("for 2 images it gives {} {}; it must give float32 logits [2, {}], one for each class of the "
                       "data",
                       toString(logits.scalar_type()), fmt::format("[{}]", fmt::join(logits.sizes(), ", ")),
                       data.classes));
  }
}

}  // namespace

std::unique_ptr<Model> make_script_model(const ModelOptions& options) {
  const std::string prefix = "script:";
  if (options.spec.size() <= prefix.size()) {
    throw Error("--model script: the file is missing; write script:FILE", ExitCode::kUsage);
  }
  const std::string file = options.spec.substr(prefix.size());
  const Module module = load(file);
  auto model = std::make_unique<ScriptModel>(file, module, options);
  require_logits(file, module, options.data);
  return model;
}

}  // namespace shoal
