#include <fmt/format.h>

#include "store/error.h"
#include "trainer/model.h"
#include "trainer/model_kinds.h"
#include "trainer/quadratic.h"

namespace shoal {

std::unique_ptr<Model> make_model(const ModelOptions& options) {
  const std::string& spec = options.spec;
  const std::string kind = spec.substr(0, spec.find(':'));
  if (spec == "lenet5") return make_lenet5(options);
  if (spec == "resnet18") return make_resnet18(options);
  if (kind == "mlp") return make_mlp(options);
  if (kind == "script") return make_script_model(options);
  if (kind == "quadratic") {
    if (options.device != "cpu") {
      throw Error(fmt::format("--model {}: it computes on the host only; use --device cpu", spec), ExitCode::kUsage);
    }
    return make_quadratic(parse_quadratic(spec, options.seed));
  }
  throw Error(fmt::format("--model {}: choose from {}", spec, model_choices()), ExitCode::kUsage);
}

std::string model_choices() {
  return "lenet5, resnet18, mlp:PIXELS-...-CLASSES (mlp:784-128-10), quadratic[:D[:ZETA[:SIGMA]]], script:FILE (a "
         "TorchScript file: images in, logits out; float32 parameters, no shared tensors)";
}

}  // namespace shoal
