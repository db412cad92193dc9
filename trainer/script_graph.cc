#include "trainer/script_graph.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/inliner.h>

namespace shoal {
namespace {

using torch::jit::Block;
using torch::jit::Node;

// A node's inputs by the names that its schema gives them.
class Inputs {
 public:
  explicit Inputs(const Node& node) : node_(node), schema_(node.schema()) {}

  const torch::jit::Value* find(const char* name) const {
    const auto index = schema_.argumentIndexWithName(name);
    return index ? node_.input(static_cast<std::size_t>(*index)) : nullptr;
  }
  // What the file says it always is, if it does.
  template <class Value>
  std::optional<Value> constant(const char* name) const {
    const torch::jit::Value* const value = find(name);
    if (value == nullptr) return {};
    const auto fixed = torch::jit::constant_as<Value>(value);
    return fixed ? std::optional<Value>(*fixed) : std::nullopt;
  }

 private:
  const Node& node_;
  const c10::FunctionSchema& schema_;
};

// Recurrent layers and attention are not tagged, but take the probability as an argument.
bool is_random(const Node& node, const Inputs& inputs) {
  if (inputs.constant<bool>("train") == false) return false;
  for (const char* probability : {"dropout", "dropout_p"}) {
    if (inputs.find(probability) != nullptr) return inputs.constant<double>(probability) != 0.0;
  }
  const auto operation = c10::Dispatcher::singleton().findSchema(node.schema().operator_name());
  return operation && operation->hasTag(at::Tag::nondeterministic_seeded);
}

bool trains_always(const Inputs& inputs) {
  if (inputs.constant<bool>("train") == true) return inputs.constant<double>("p") != 0.0;
  // Without running statistics, a BatchNorm takes the batch's in evaluation too, and rightly.
  const torch::jit::Value* const statistics = inputs.find("running_mean");
  return inputs.constant<bool>("training") == true && statistics != nullptr && !statistics->mustBeNone();
}

void look_at(const Block& block, ScriptTraits& traits) {
  for (const Node* node : block.nodes()) {
    // What could not be inlined, such as a call through an interface, may be anything.
    if (node->kind() == c10::prim::CallMethod || node->kind() == c10::prim::CallFunction) traits.random = true;
    if (node->maybeSchema() != nullptr) {
      const Inputs inputs(*node);
      traits.random = traits.random || is_random(*node, inputs);
      if (trains_always(inputs)) traits.always_trains = node->kind().toUnqualString();
    }
    for (const Block* inner : node->blocks()) look_at(*inner, traits);
    if (node->hasAttribute(c10::attr::Subgraph)) look_at(*node->g(c10::attr::Subgraph)->block(), traits);
  }
}

}  // namespace

ScriptTraits traits_of(const torch::jit::Module& module) {
  const auto graph = module.get_method("forward").graph()->copy();
  torch::jit::Inline(*graph);
  ScriptTraits traits;
  look_at(*graph->block(), traits);
  return traits;
}

}  // namespace shoal
