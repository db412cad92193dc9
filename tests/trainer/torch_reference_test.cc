// What must agree with LibTorch itself: optimizers, and models from TorchScript files.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <cmath>
#include <fstream>
#include <thread>

#include "store/error.h"
#include "tests/store/temporary_directory.h"
#include "tests/trainer/model_harness.h"
#include "trainer/lenet5_learner.h"
#include "trainer/optimizer.h"
#include "trainer/torch_learner.h"

namespace shoal {
namespace {

// Both walk down the same bowl for 20 steps.
template <class TorchOptimizer, class TorchOptions>
void expect_like_torch(const OptimizerOptions& options, const TorchOptions& torch_options) {
  constexpr std::int64_t kSize = 203;
  torch::manual_seed(1);
  const torch::Tensor start = torch::randn({kSize});
  const torch::Tensor target = torch::randn({kSize});
  torch::Tensor theirs = start.clone().requires_grad_(true);
  TorchOptimizer reference({theirs}, torch_options);

  const auto optimizer = make_optimizer(options);
  torch::Tensor ours = start.clone();
  std::vector<std::vector<float>> slots(optimizer->slots().size(), std::vector<float>(kSize, 0.0F));
  std::vector<float*> pointers;
  for (auto& slot : slots) pointers.push_back(slot.data());
  for (std::uint64_t step = 1; step <= 20; ++step) {
    theirs.mutable_grad() = (theirs.detach() - target) * 1.5;
    reference.step();
    const torch::Tensor gradient = (ours - target) * 1.5;
    optimizer->apply({ours.data_ptr<float>(), ours.data_ptr<float>(), gradient.data_ptr<float>(),
                      ours.data_ptr<float>(), pointers, kSize, torch_options.lr(), step});
  }
  EXPECT_LT((ours - theirs.detach()).abs().max().item<double>(), 2e-6);
  EXPECT_GT((ours - start).abs().max().item<double>(), 0.01);
}

TEST(OptimizerLikeTorch, Sgd) {
  using torch::optim::SGD;
  using torch::optim::SGDOptions;
  expect_like_torch<SGD>({.name = "sgd", .momentum = 0}, SGDOptions(0.05));
  expect_like_torch<SGD>({.name = "sgd", .momentum = 0.9}, SGDOptions(0.05).momentum(0.9));
  expect_like_torch<SGD>({.name = "sgd", .momentum = 0.9, .weight_decay = 0.1},
                         SGDOptions(0.05).momentum(0.9).weight_decay(0.1));
  expect_like_torch<SGD>({.name = "sgd", .momentum = 0.9, .nesterov = true, .weight_decay = 0.1},
                         SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(0.1));
}

TEST(OptimizerLikeTorch, Adam) {
  using torch::optim::Adam;
  using torch::optim::AdamOptions;
  expect_like_torch<Adam>({.name = "adam"}, AdamOptions(0.01).eps(1e-8).betas({0.9, 0.999}));
  expect_like_torch<Adam>({.name = "adam", .weight_decay = 0.1, .beta1 = 0.8, .beta2 = 0.99},
                          AdamOptions(0.01).weight_decay(0.1).betas({0.8, 0.99}));
}

TEST(OptimizerLikeTorch, AdamW) {
  using torch::optim::AdamW;
  using torch::optim::AdamWOptions;
  expect_like_torch<AdamW>({.name = "adamw", .weight_decay = 0.1}, AdamWOptions(0.01).weight_decay(0.1));
}

void expect_like_autograd(const DataSetShape& data, std::size_t batch_size) {
  SCOPED_TRACE(batch_size);
  Node node("lenet5", data);
  ASSERT_NE(dynamic_cast<LeNet5Learner*>(node.learner.get()), nullptr);
  TorchLearner reference(dynamic_cast<const TorchModel&>(*node.model));
  const Batch batch = random_batch(data, batch_size);
  std::vector<float> expected(node.slope.size());
  const double loss = reference.gradient(0, 0, batch, node.parameters.data(), nullptr, expected.data());
  EXPECT_NEAR(node.gradient(batch), loss, 1e-6);
  double error = 0;
  double length = 0;
  for (std::size_t k = 0; k < expected.size(); ++k) {
    error += std::pow(static_cast<double>(node.slope[k]) - static_cast<double>(expected[k]), 2);
    length += std::pow(static_cast<double>(expected[k]), 2);
  }
  EXPECT_LT(std::sqrt(error / length), 1e-6);

  const Score theirs = reference.score(batch, node.parameters.data(), nullptr);
  const Score ours = node.score(batch);
  EXPECT_EQ(ours.correct, theirs.correct);
  EXPECT_NEAR(ours.loss, theirs.loss, 1e-6);
}

TEST(LeNet5, ByHandIsWhatAutogradComputes) {
  for (const DataSetShape& data : {kGrey28, kColour32}) {
    if (!LeNet5Learner::can_learn(data.image)) GTEST_SKIP() << "this processor has no AVX2";
    for (const std::size_t size : {1, 5, 64}) expect_like_autograd(data, size);
  }
}

// 784 -> 10 with a counter, a frozen parameter and a parameter that is never used.
torch::jit::Module linear_module() {
  torch::jit::Module layer("layer");
  layer.register_parameter("weight", (torch::randn({10, 784}) * 0.05).set_requires_grad(true), false);
  layer.register_parameter("bias", torch::randn({10}).set_requires_grad(true), false);
  torch::jit::Module module("net");
  module.register_module("layer", layer);
  module.register_parameter("unused", torch::randn({3}).set_requires_grad(true), false);
  module.register_parameter("frozen", torch::randn({10}).set_requires_grad(false), false);
  module.register_buffer("calls", torch::zeros({}, torch::kLong));
  module.register_buffer("scale", torch::full({1}, 2.0, torch::kDouble));
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define(R"(
    def forward(self, x):
        if self.training:
            self.calls.add_(1)
        y = torch.matmul(x.flatten(1), self.layer.weight.t()) + self.layer.bias + self.frozen
        return y * self.scale.float()
  )");
  return module;
}

class ScriptModel : public testing::Test {
 protected:
  std::string file() const { return (directory_.path() / "model.pt").string(); }
  std::string spec() const { return "script:" + file(); }

  std::string refusal() const {
    try {
      static_cast<void>(make_model({.spec = spec(), .data = kGrey28}));
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
      return error.what();
    }
    return "accepted";
  }

 private:
  TemporaryDirectory directory_{fast_directory()};
};

TEST_F(ScriptModel, StartsFromTheFilesValuesAndLearns) {
  torch::manual_seed(2);
  torch::jit::Module module = linear_module();
  module.save(file());
  Node node(spec(), kGrey28);
  ASSERT_EQ(node.model->parameters().size(), 4U);
  EXPECT_EQ(node.model->parameter_count(), 7840U + 10 + 3 + 10);

  const Batch batch = random_batch(kGrey28, 5);
  const torch::Tensor images = torch::from_blob(const_cast<float*>(batch.images.data()), {5, 1, 28, 28});
  const torch::Tensor labels = torch::from_blob(const_cast<std::int64_t*>(batch.labels.data()), {5}, torch::kLong);
  torch::Tensor loss = torch::nn::functional::cross_entropy(module.forward({images}).toTensor(), labels);
  loss.backward();

  EXPECT_NEAR(node.gradient(batch), loss.item<double>(), 1e-5);
  const StateLayout layout(node.model->parameters());
  for (const auto& parameter : module.named_parameters()) {
    const float* const ours = node.slope.data() + layout.find(parameter.name).offset / sizeof(float);
    const torch::Tensor slope = torch::from_blob(const_cast<float*>(ours), parameter.value.sizes());
    if (parameter.name == "unused" || parameter.name == "frozen") {
      EXPECT_EQ(slope.abs().max().item<float>(), 0.0F) << parameter.name;
    } else {
      EXPECT_TRUE(torch::allclose(slope, parameter.value.grad(), 1e-5, 1e-6)) << parameter.name;
    }
  }
}

TEST_F(ScriptModel, KeepsItsBuffersInTheNodesMemory) {
  linear_module().save(file());
  Node node(spec(), kGrey28);
  const Batch batch = random_batch(kGrey28, 5);
  ASSERT_EQ(node.model->buffers().size(), 2U);
  ASSERT_EQ(node.model->buffers()[0].name, "calls");
  const auto calls = [&] { return *reinterpret_cast<const std::int64_t*>(node.buffers.data()); };
  EXPECT_EQ(calls(), 0);
  node.gradient(batch);
  node.gradient(batch);
  EXPECT_EQ(calls(), 2);
  node.score(batch);
  EXPECT_EQ(calls(), 2) << "a score runs in evaluation mode";
}

TEST_F(ScriptModel, KeepsBoolBuffersAsBytesAndSeesThemAsBools) {
  torch::jit::Module module("net");
  module.register_parameter("weight", (torch::randn({10, 784}) * 0.05).set_requires_grad(true), false);
  module.register_buffer("mask", torch::arange(784).lt(100));
  module.register_buffer("steps_are_odd", torch::zeros({2}, torch::kBool));
  module.register_buffer("sign", torch::full({1}, -1, torch::kChar));
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define(R"(
    def forward(self, x):
        if self.training:
            self.steps_are_odd.logical_not_()
        x = x.flatten(1).masked_fill(torch.logical_not(self.mask), 0.0)
        return torch.matmul(x, self.weight.t()) * self.sign
  )");
  module.save(file());
  Node node(spec(), kGrey28);
  const std::vector<TensorSpec>& buffers = node.model->buffers();
  ASSERT_EQ(buffers.size(), 3U);
  for (const TensorSpec& buffer : buffers) EXPECT_EQ(buffer.dtype, DType::kUInt8) << buffer.name;
  EXPECT_EQ(node.buffers[99], std::byte{1});
  EXPECT_EQ(node.buffers[100], std::byte{0});

  const StateLayout layout(buffers);
  const auto odd = [&] { return node.buffers[layout.find("steps_are_odd").offset + 1]; };
  const Batch batch = random_batch(kGrey28, 5);
  for (const std::byte expected : {std::byte{1}, std::byte{0}, std::byte{1}}) {
    node.gradient(batch);
    EXPECT_EQ(odd(), expected);
  }
  EXPECT_NE(node.slope[99], 0.0F);
  EXPECT_EQ(node.slope[100], 0.0F) << "the mask hides this pixel";

  torch::NoGradGuard no_grad;
  const torch::Tensor images = torch::from_blob(const_cast<float*>(batch.images.data()), {5, 1, 28, 28});
  const torch::Tensor labels = torch::from_blob(const_cast<std::int64_t*>(batch.labels.data()), {5}, torch::kLong);
  const torch::Tensor logits = module.forward({images}).toTensor();
  EXPECT_NEAR(node.score(batch).loss, torch::nn::functional::cross_entropy(logits, labels).item<double>(), 1e-5);
}

TEST_F(ScriptModel, GivesTheSameBitsHoweverOftenItRan) {
  linear_module().save(file());
  Node node(spec(), kGrey28);
  const Batch batch = random_batch(kGrey28, 5);
  node.gradient(batch);
  const std::vector<float> first = node.slope;
  for (int i = 0; i < 4; ++i) node.gradient(batch);
  EXPECT_EQ(node.slope, first);
}

// 784 -> 10 through `body`, which makes y from x.
torch::jit::Module module_with(const std::string& body) {
  torch::jit::Module module("net");
  module.register_parameter("weight", (torch::randn({10, 784}) * 0.05).set_requires_grad(true), false);
  module.register_buffer("calls", torch::zeros({}, torch::kLong));
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define("def forward(self, x):\n    x = x.flatten(1)\n    " + body +
                "\n    return torch.matmul(y, self.weight.t())\n");
  return module;
}

TEST_F(ScriptModel, DrawsForANodesStepTheSameNumbersWhateverRanBefore) {
  module_with("y = torch.dropout(x, 0.5, self.training)").save(file());
  Node node(spec(), kGrey28);
  EXPECT_TRUE(node.model->random());
  const Batch batch = random_batch(kGrey28, 5);
  const auto slope = [&](Learner& learner, NodeId number, std::uint64_t step) {
    std::vector<float> gradient(node.model->flat_size());
    std::vector<std::byte> buffers = node.buffers;
    learner.gradient(number, step, batch, node.parameters.data(), buffers.data(), gradient.data());
    return gradient;
  };
  const std::vector<float> first = slope(*node.learner, 3, 7);
  EXPECT_NE(slope(*node.learner, 3, 8), first);
  EXPECT_NE(slope(*node.learner, 4, 7), first);
  torch::manual_seed(99);
  EXPECT_EQ(slope(*node.learner, 3, 7), first);

  const auto other = node.model->make_learner();
  std::vector<float> meanwhile;
  std::thread thread([&] {
    for (std::uint64_t step = 0; step < 50; ++step) meanwhile = slope(*other, 3, step % 2 == 0 ? step : 7);
  });
  for (int i = 0; i < 50; ++i) ASSERT_EQ(slope(*node.learner, 3, 7), first);
  thread.join();
  EXPECT_EQ(meanwhile, first);
}

TEST_F(ScriptModel, IsScoredWithoutDropoutAndAlwaysAlike) {
  torch::manual_seed(3);
  module_with("y = torch.dropout(x, 0.5, self.training)").save(file());
  Node with(spec(), kGrey28);
  torch::manual_seed(3);
  module_with("y = x").save(file());
  Node without(spec(), kGrey28);
  EXPECT_FALSE(without.model->random());
  const Batch batch = random_batch(kGrey28, 50);
  with.gradient(batch);
  EXPECT_EQ(with.score(batch).loss, without.score(batch).loss);

  module_with("y = x + torch.rand_like(x)").save(file());
  Node noisy(spec(), kGrey28);
  EXPECT_TRUE(noisy.model->random());
  EXPECT_EQ(noisy.score(batch).loss, noisy.score(batch).loss);
}

TEST_F(ScriptModel, IsNotRandomWhereDropoutIsOff) {
  module_with("y = torch.dropout(x, 0.5, False)").save(file());
  EXPECT_FALSE(Node(spec(), kGrey28).model->random());
  module_with("if x.size(0) > 100:\n        y = torch.bernoulli(x)\n    else:\n        y = x").save(file());
  EXPECT_TRUE(Node(spec(), kGrey28).model->random()) << "a branch that has yet to be taken";
}

TEST_F(ScriptModel, ThatWritesToItsBuffersInEvaluationChangesNoNode) {
  module_with("self.calls.add_(1)\n    y = x").save(file());
  Node node(spec(), kGrey28);
  const std::vector<std::byte> before = node.buffers;
  node.score(random_batch(kGrey28, 5));
  EXPECT_EQ(node.buffers, before);
}

TEST_F(ScriptModel, SaysWhatToDoWhereItCannotBeUsed) {
  EXPECT_NE(refusal().find("no such file"), std::string::npos);
  std::ofstream(file()) << "not a model";
  EXPECT_NE(refusal().find("torch.jit.script"), std::string::npos) << refusal();

  torch::jit::Module module = linear_module();
  module.to(torch::kDouble);
  module.save(file());
  EXPECT_NE(refusal().find("model.float()"), std::string::npos) << refusal();

  torch::jit::Module frozen("frozen");
  frozen.register_parameter("weight", torch::randn({784, 10}).set_requires_grad(false), false);
  frozen.define("def forward(self, x):\n    return torch.matmul(x.flatten(1), self.weight)\n");
  frozen.save(file());
  EXPECT_NE(refusal().find("nothing to train"), std::string::npos) << refusal();

  torch::jit::Module wide("wide");
  wide.register_parameter("weight", torch::randn({784, 12}).set_requires_grad(true), false);
  wide.define("def forward(self, x):\n    return torch.matmul(x.flatten(1), self.weight)\n");
  wide.save(file());
  EXPECT_NE(refusal().find("[2, 12]"), std::string::npos) << refusal();

  torch::jit::Module other("other");
  other.register_parameter("weight", torch::randn({100, 10}).set_requires_grad(true), false);
  other.define("def forward(self, x):\n    return torch.matmul(x.flatten(1), self.weight)\n");
  other.save(file());
  EXPECT_NE(refusal().find("1 x 28 x 28"), std::string::npos) << refusal();

  module_with("y = torch.dropout(x, 0.5, True)").save(file());
  EXPECT_NE(refusal().find("its dropout cannot be switched off"), std::string::npos) << refusal();
  module_with("y = torch.batch_norm(x, None, None, torch.zeros(784), torch.ones(784), True, 0.1, 1e-5, False)")
      .save(file());
  EXPECT_NE(refusal().find("its batch_norm cannot be switched off"), std::string::npos) << refusal();
}

TEST_F(ScriptModel, WithParametersThatCannotBeTrainedSaysWhatToDoWithThem) {
  for (const auto& [type, advice] :
       {std::pair(torch::kDouble, "is of type Double, and Shoal trains float32: save model"),
        std::pair(torch::kHalf, "save model.float()"),
        std::pair(torch::kLong, "'extra' is of type Long, and Shoal trains float32: make it"),
        std::pair(torch::kBool, "'extra' is of type Bool, and Shoal trains float32: make it")}) {
    torch::jit::Module module = linear_module();
    module.register_parameter("extra", torch::ones({3}).to(type), false);
    module.save(file());
    EXPECT_NE(refusal().find(advice), std::string::npos) << refusal();
  }
  torch::jit::Module module = linear_module();
  module.register_buffer("short", torch::ones({3}, torch::kShort));
  module.save(file());
  EXPECT_NE(refusal().find("the buffer 'short' is of type Short"), std::string::npos) << refusal();
}

TEST_F(ScriptModel, WithTiedTensorsIsRefusedAndNamesThem) {
  const torch::Tensor weight = torch::randn({784, 784}).set_requires_grad(true);
  const auto tied = [&](const auto& add_second) {
    torch::jit::Module module = module_with("y = x");
    module.register_parameter("encoder", weight, false);
    add_second(module);
    module.save(file());
    return refusal();
  };
  const std::string parameters = tied([&](torch::jit::Module& m) { m.register_parameter("decoder", weight, false); });
  EXPECT_NE(parameters.find("'encoder' and 'decoder' share their memory"), std::string::npos) << parameters;
  const std::string buffer = tied([&](torch::jit::Module& m) { m.register_buffer("copy", weight.detach()); });
  EXPECT_NE(buffer.find("'encoder' and 'copy' share their memory"), std::string::npos) << buffer;
  const std::string transposed =
      tied([&](torch::jit::Module& m) { m.register_parameter("decoder", weight.detach().t(), false); });
  EXPECT_NE(transposed.find("'encoder' and 'decoder' share their memory"), std::string::npos) << transposed;
}

TEST(Device, CudaIsRefusedWhereThereIsNone) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "there is a CUDA device";
  try {
    static_cast<void>(make_model({.spec = "lenet5", .data = kGrey28, .device = "cuda:0"}));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no CUDA device; use --device cpu"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace shoal
