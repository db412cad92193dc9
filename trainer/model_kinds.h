// The makers behind make_model(), one for each kind of model; each throws a usage Error for a spec or data that it
// cannot serve. No torch in here, so that who only calls them does not compile it.
#pragma once

#include <memory>

#include "trainer/model.h"

namespace shoal {

std::unique_ptr<Model> make_lenet5(const ModelOptions& options);
std::unique_ptr<Model> make_resnet18(const ModelOptions& options);
std::unique_ptr<Model> make_mlp(const ModelOptions& options);
std::unique_ptr<Model> make_script_model(const ModelOptions& options);

}  // namespace shoal
