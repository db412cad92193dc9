#include "trainer/torch_learner.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

#include "pipeline/torch_device_memory.h"
#include "store/error.h"
#include "trainer/device_learner.h"
#include "trainer/random.h"

namespace shoal {
namespace {

c10::Storage unbound_storage(std::size_t bytes, c10::Device device) {
  return {c10::Storage::use_byte_size_t(), bytes, at::DataPtr(nullptr, device), nullptr, /*resizable=*/false};
}

void set_memory(const c10::Storage& storage, const void* memory) {
  storage.set_data_ptr_noswap(at::DataPtr(const_cast<void*>(memory), storage.device()));
}

c10::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return c10::kFloat;
    case DType::kFloat64: return c10::kDouble;
    case DType::kFloat16: return c10::kHalf;
    case DType::kBFloat16: return c10::kBFloat16;
    case DType::kInt32: return c10::kInt;
    case DType::kInt64: return c10::kLong;
    case DType::kUInt8: return c10::kByte;
  }
  SHOAL_CHECK(false);
}

// `place` lies `base` bytes into what the storage holds.
at::Tensor view_of(const c10::Storage& storage, const TensorPlace& place, std::uint64_t base) {
  const auto options = at::TensorOptions(scalar_type(place.spec.dtype)).device(storage.device());
  std::vector<std::int64_t> strides(place.spec.shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = strides.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= place.spec.shape[i];
  }
  const auto offset = static_cast<std::int64_t>((place.offset - base) / bytes_of(place.spec.dtype));
  return at::empty({0}, options).set_(storage, offset, place.spec.shape, strides);
}

std::vector<TensorPlace> places_of(const Model& model) {
  std::vector<TensorSpec> all = model.parameters();
  all.insert(all.end(), model.buffers().begin(), model.buffers().end());
  return StateLayout(all).tensors();
}

c10::Device parse_device(const std::string& text) {
  c10::optional<c10::Device> device;
  try {
    device = c10::Device(text);
  } catch (const c10::Error&) {
    // Told below, together with devices that exist but are not for us.
  }
  // Compared with the text, because LibTorch keeps a number's last 8 bits and lets the host have one.
  if (!device || device->str() != text || !(text == "cpu" || device->is_cuda())) {
    throw Error("--device " + text + ": write cpu, cuda or cuda:1", ExitCode::kUsage);
  }
  if (device->is_cuda()) {
    if (!at::hasCUDA())
      throw Error("--device " + text + ": this LibTorch has no CUDA device; use --device cpu", ExitCode::kUsage);
    // A number always: LibTorch holds `cuda` and the `cuda:0` of its tensors for different devices.
    if (!device->has_index()) device->set_index(0);
    const auto count = static_cast<int>(at::detail::getCUDAHooks().getNumGPUs());
    if (device->index() >= count) {
      throw Error("--device " + text + ": the number of CUDA devices here is " + std::to_string(count),
                  ExitCode::kUsage);
    }
  }
  return *device;
}

// Operations that draw random numbers take them from the device's one generator. It is seeded for the step at hand, and
// nobody else draws from it until the step is done.
class GeneratorTurn {
 public:
  GeneratorTurn(c10::Device device, std::uint64_t seed) : lock_(mutex()) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::scoped_lock own(generator.mutex());
    generator.set_current_seed(seed);
  }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  std::unique_lock<std::mutex> lock_;
};

}  // namespace

TorchLearner::TorchLearner(const TorchModel& model)
    : device_(model.device()),
      image_(model.image()),
      seed_(model.seed()),
      random_(model.random()),
      score_buffers_(at::empty({static_cast<std::int64_t>(model.buffers_bytes())}, c10::kByte)),
      parameter_storage_(unbound_storage(model.flat_size() * sizeof(float), device_)),
      buffer_storage_(unbound_storage(model.buffers_bytes(), device_)),
      gradient_storage_(unbound_storage(model.flat_size() * sizeof(float), device_)) {
  BoundTensors tensors;
  const std::vector<TensorPlace> places = places_of(model);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i < model.parameters().size()) {
      tensors.parameters.push_back(view_of(parameter_storage_, places[i], 0).set_requires_grad(true));
      gradients_.push_back(view_of(gradient_storage_, places[i], 0));
    } else {
      tensors.buffers.push_back(view_of(buffer_storage_, places[i], model.buffers_offset()));
    }
  }
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    TensorPlace gap;
    gap.offset = places[i].offset + places[i].bytes;
    const std::uint64_t end = i + 1 < gradients_.size() ? places[i + 1].offset : model.flat_size() * sizeof(float);
    gap.spec.shape = {static_cast<std::int64_t>((end - gap.offset) / sizeof(float))};
    if (gap.spec.shape[0] > 0) gradient_gaps_.push_back(view_of(gradient_storage_, gap, 0));
  }
  parameters_ = tensors.parameters;
  network_ = model.make_network(tensors);
}

void TorchLearner::bind(const float* parameters, const std::byte* buffers) {
  set_memory(parameter_storage_, parameters);
  set_memory(buffer_storage_, buffers);
}

at::Tensor TorchLearner::device_gradient(NodeId node, std::uint64_t step, const at::Tensor& images,
                                         const at::Tensor& labels, const float* parameters, std::byte* buffers,
                                         float* gradient) {
  std::optional<GeneratorTurn> turn;
  if (random_) turn.emplace(device_, RandomStream(seed_, Purpose::kTensorLibrary, node, step).bits64());
  bind(parameters, buffers);
  set_memory(gradient_storage_, gradient);
  const at::Tensor loss = at::cross_entropy_loss(network_->logits(images, Phase::kTraining), labels);
  // grad() and a copy, rather than .grad bound to the gradient: accumulating into it would read it as well.
  const auto slopes = torch::autograd::grad({loss}, parameters_, {}, /*retain_graph=*/false, /*create_graph=*/false,
                                            /*allow_unused=*/true);
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    if (slopes[i].defined()) {
      gradients_[i].copy_(slopes[i]);
    } else {
      gradients_[i].zero_();  // the network does not use this parameter
    }
  }
  for (const at::Tensor& gap : gradient_gaps_) gap.zero_();
  return loss.detach();
}

TorchLearner::DeviceScore TorchLearner::device_score(const at::Tensor& images, const at::Tensor& labels,
                                                     const float* parameters, const std::byte* buffers) {
  const at::NoGradGuard no_grad;
  std::optional<GeneratorTurn> turn;
  if (random_) turn.emplace(device_, RandomStream(seed_, Purpose::kEvaluation).bits64());
  bind(parameters, buffers);
  const at::Tensor logits = network_->logits(images, Phase::kScoring);
  return {logits.argmax(1).eq(labels).sum(), at::cross_entropy_loss(logits, labels)};
}

at::Tensor TorchLearner::images_of(const Batch& batch) const {
  SHOAL_CHECK(batch.images.size() >= batch.size * image_.pixels() && batch.labels.size() >= batch.size);
  return at::from_blob(const_cast<float*>(batch.images.data()),
                       {static_cast<std::int64_t>(batch.size), image_.channels, image_.height, image_.width},
                       c10::kFloat)
      .to(device_);
}

at::Tensor TorchLearner::labels_of(const Batch& batch) const {
  return at::from_blob(const_cast<std::int64_t*>(batch.labels.data()), {static_cast<std::int64_t>(batch.size)},
                       c10::kLong)
      .to(device_);
}

double TorchLearner::gradient(NodeId node, std::uint64_t step, const Batch& batch, const float* parameters,
                              std::byte* buffers, float* gradient) {
  return device_gradient(node, step, images_of(batch), labels_of(batch), parameters, buffers, gradient).item<double>();
}

Score TorchLearner::score(const Batch& batch, const float* parameters, const std::byte* buffers) {
  if (batch.size == 0) return {};
  // A script may write to its buffers in evaluation too, and these belong to a frame that is only read.
  auto* const copy = reinterpret_cast<std::byte*>(score_buffers_.data_ptr());
  std::copy_n(buffers, score_buffers_.nbytes(), copy);
  const DeviceScore score = device_score(images_of(batch), labels_of(batch), parameters, copy);
  return {batch.size, static_cast<std::uint64_t>(score.correct.item<std::int64_t>()), score.loss.item<double>()};
}

TorchModel::TorchModel(std::vector<TensorSpec> parameters, std::vector<TensorSpec> buffers, const ModelOptions& options)
    : Model(std::move(parameters), std::move(buffers)),
      device_(parse_device(options.device)),
      image_(options.data.image),
      seed_(options.seed) {}

std::unique_ptr<Learner> TorchModel::make_learner() const {
  if (device_.is_cpu()) return std::make_unique<TorchLearner>(*this);
  return std::make_unique<DeviceLearner>(*this, device_, std::make_unique<TorchDeviceMemory>(device_));
}

LayeredModel::LayeredModel(Layers layers, const ModelOptions& options)
    : TorchModel(layers.parameters, layers.buffers, options), layers_(std::move(layers)) {}

void LayeredModel::initialize(std::uint64_t seed, NodeId node, float* parameters, std::byte* buffers) const {
  RandomStream stream(seed, Purpose::kInitialModel, node);
  std::memset(parameters, 0, flat_size() * sizeof(float));
  if (buffers_bytes() != 0) std::memset(buffers, 0, buffers_bytes());
  const std::vector<TensorPlace> places = places_of(*this);
  const std::size_t parameter_count = layers_.parameters.size();
  for (std::size_t i = 0; i < parameter_count; ++i) {
    const auto [value, spread] = layers_.initial[i];
    float* const first = parameters + places[i].offset / sizeof(float);
    float* const end = first + places[i].bytes / sizeof(float);
    if (spread == 0) {
      std::fill(first, end, value);
    } else {
      for (float* p = first; p != end; ++p) {
        *p = static_cast<float>(value + spread * (2 * static_cast<double>(stream.uniform_float()) - 1));
      }
    }
  }
  for (std::size_t i = parameter_count; i < places.size(); ++i) {
    if (places[i].spec.dtype != DType::kFloat32) continue;  // counters start from the zeros above
    auto* const first = reinterpret_cast<float*>(buffers + (places[i].offset - buffers_offset()));
    std::fill(first, first + places[i].bytes / sizeof(float), layers_.initial_buffers[i - parameter_count]);
  }
}

}  // namespace shoal
