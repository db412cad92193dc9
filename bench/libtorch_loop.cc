#include <torch/script.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "bench/bare_loop.h"
#include "store/error.h"
#include "trainer/model.h"
#include "trainer/sampler.h"

namespace shoal::bench {
namespace {

struct LeNet5 : torch::nn::Module {
  LeNet5() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
    register_module("fc3", fc3);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2).flatten(1);
    return fc3(torch::relu(fc2(torch::relu(fc1(x)))));
  }
  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 6, 5).padding(2)};
  torch::nn::Conv2d conv2{torch::nn::Conv2dOptions(6, 16, 5)};
  torch::nn::Linear fc1{400, 120};
  torch::nn::Linear fc2{120, 84};
  torch::nn::Linear fc3{84, 10};
};

torch::nn::Conv2d conv3x3(int from, int to, int stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 3).stride(stride).padding(1).bias(false));
}

struct Block : torch::nn::Module {
  Block(int from, int to, int stride) : conv1(conv3x3(from, to, stride)), conv2(conv3x3(to, to, 1)), bn1(to), bn2(to) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("bn1", bn1);
    register_module("bn2", bn2);
    if (stride != 1 || from != to) {
      shortcut = register_module(
          "shortcut",
          torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 1).stride(stride).bias(false)),
                                torch::nn::BatchNorm2d(to)));
    }
  }
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = bn2(conv2(torch::relu(bn1(conv1(x)))));
    return torch::relu(y + (shortcut ? shortcut->forward(x) : x));
  }
  torch::nn::Conv2d conv1;
  torch::nn::Conv2d conv2;
  torch::nn::BatchNorm2d bn1;
  torch::nn::BatchNorm2d bn2;
  torch::nn::Sequential shortcut{nullptr};
};

struct ResNet18 : torch::nn::Module {
  ResNet18() {
    body->push_back(conv3x3(3, 64, 1));
    body->push_back(torch::nn::BatchNorm2d(64));
    body->push_back(torch::nn::ReLU());
    int from = 64;
    for (const int to : {64, 128, 256, 512}) {
      body->push_back(Block(from, to, to == 64 ? 1 : 2));
      body->push_back(Block(to, to, 1));
      from = to;
    }
    register_module("body", body);
    register_module("fc", fc);
  }
  torch::Tensor forward(const torch::Tensor& x) { return fc(body->forward(x).mean({2, 3})); }
  torch::nn::Sequential body;
  torch::nn::Linear fc{512, 10};
};

template <typename Network>
double run(const BareLoopOptions& options) {
  const auto data = open_data_set(options.data, 1);
  const auto partition = make_partition("iid", *data, options.nodes, 1);
  const Sampler sampler(*data, *partition, options.batch, Augmentation::kNone, 1);
  struct Node {
    std::shared_ptr<Network> network;
    std::unique_ptr<torch::optim::Optimizer> optimizer;
  };
  std::vector<Node> nodes(options.nodes);
  for (Node& node : nodes) {
    node.network = std::make_shared<Network>();
    if (options.optimizer == "sgd") {
      node.optimizer = std::make_unique<torch::optim::SGD>(
          node.network->parameters(), torch::optim::SGDOptions(options.learning_rate).momentum(0.9));
    } else {
      node.optimizer = std::make_unique<torch::optim::Adam>(node.network->parameters(),
                                                            torch::optim::AdamOptions(options.learning_rate));
    }
  }
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> workers;
  for (unsigned worker = 0; worker < options.threads; ++worker) {
    workers.emplace_back([&, worker] {
      prepare_worker_thread(1);
      Batch batch;
      const ImageShape shape = data->shape();
      for (unsigned round = 0; round < options.rounds; ++round) {
        for (NodeId i = worker; i < options.nodes; i += options.threads) {
          sampler.draw(i, round, batch);
          const torch::Tensor images =
              torch::from_blob(batch.images.data(), {options.batch, shape.channels, shape.height, shape.width});
          const torch::Tensor labels = torch::from_blob(batch.labels.data(), {options.batch}, torch::kInt64);
          nodes[i].optimizer->zero_grad();
          torch::nn::functional::cross_entropy(nodes[i].network->forward(images), labels).backward();
          nodes[i].optimizer->step();
        }
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return options.nodes * options.rounds / seconds;
}

}  // namespace

double libtorch_loop(const BareLoopOptions& options) {
  prepare_tensor_library(1);
  if (options.model == "lenet5") return run<LeNet5>(options);
  if (options.model == "resnet18") return run<ResNet18>(options);
  throw Error("the LibTorch loop knows lenet5 and resnet18", ExitCode::kUsage);
}

void write_lenet5_script(const std::filesystem::path& file) {
  torch::jit::Module module("LeNet5");
  const LeNet5 network;
  for (const auto& parameter : network.named_parameters()) {
    std::string name = parameter.key();
    std::replace(name.begin(), name.end(), '.', '_');
    module.register_parameter(name, parameter.value().detach().clone().requires_grad_(), false);
  }
  module.define(R"(
def forward(self, x):
    x = torch.max_pool2d(torch.relu(torch.conv2d(x, self.conv1_weight, self.conv1_bias, [1, 1], [2, 2])), [2, 2])
    x = torch.max_pool2d(torch.relu(torch.conv2d(x, self.conv2_weight, self.conv2_bias)), [2, 2]).flatten(1)
    x = torch.relu(torch.linear(x, self.fc1_weight, self.fc1_bias))
    x = torch.relu(torch.linear(x, self.fc2_weight, self.fc2_bias))
    return torch.linear(x, self.fc3_weight, self.fc3_bias)
)");
  module.save(file.string());
}

}  // namespace shoal::bench
