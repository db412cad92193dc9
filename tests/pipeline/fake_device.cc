#include "tests/pipeline/fake_device.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstring>
#include <stdexcept>

#include "store/error.h"

namespace shoal {
namespace {

thread_local c10::StreamId current = 0;

struct FakeGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return FakeDevice::kDevice; }
  c10::Device getDevice() const override { return FakeDevice::kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const noexcept override { return FakeDevice::get().current_stream(); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return FakeDevice::get().new_stream(); }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    return FakeDevice::get().exchange_stream(stream);
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    FakeDevice::get().record(event, stream.id());
  }
  void block(void* event, const c10::Stream& stream) const override { FakeDevice::get().block(event, stream.id()); }
  bool queryEvent(void* event) const override { return FakeDevice::get().query(event); }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { FakeDevice::get().destroy(event); }
  void synchronizeStream(const c10::Stream& stream) const override { FakeDevice::get().synchronize(stream.id()); }
  // None that autograd should start a thread for.
  c10::DeviceIndex deviceCount() const noexcept override { return 0; }
};

C10_REGISTER_GUARD_IMPL(CUDA, FakeGuard)

}  // namespace

FakeDevice& FakeDevice::get() {
  static FakeDevice device;
  return device;
}

void FakeDevice::begin(std::uint64_t seed, unsigned threads, Order order) {
  const Lock lock(mutex_);
  random_.seed(seed);
  threads_ = threads;
  order_ = order;
  done_ = 0;
  waiting_ = 0;
  broken_ = false;
  queues_.clear();
  log_.clear();
}

void FakeDevice::thread_is_done() {
  const Lock lock(mutex_);
  ++done_;
  changed_.notify_all();
}

void FakeDevice::wait_for_a_waiting_thread() {
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_ > 0 || done_ > 0; });
}

void FakeDevice::break_down() {
  const Lock lock(mutex_);
  broken_ = true;
}

void FakeDevice::enqueue(const std::string& label, std::function<void()> run, Eagerness eagerness) {
  const Lock lock(mutex_);
  push(current, {label, std::move(run), nullptr, 0, eagerness});
}

std::size_t FakeDevice::pending() {
  const Lock lock(mutex_);
  std::size_t count = 0;
  for (const auto& [stream, queue] : queues_) count += queue.size();
  return count;
}

std::vector<std::string> FakeDevice::log() {
  const Lock lock(mutex_);
  return log_;
}

c10::Stream FakeDevice::new_stream() {
  const Lock lock(mutex_);
  return c10::Stream(c10::Stream::UNSAFE, kDevice, ++streams_);
}

c10::Stream FakeDevice::current_stream() const { return c10::Stream(c10::Stream::UNSAFE, kDevice, current); }

c10::Stream FakeDevice::exchange_stream(c10::Stream stream) {
  const c10::Stream before = current_stream();
  current = stream.id();
  return before;
}

void FakeDevice::record(void** event, c10::StreamId stream) {
  const Lock lock(mutex_);
  if (*event == nullptr) {
    auto made = std::make_shared<Event>();
    *event = made.get();
    events_[*event] = std::move(made);
  }
  const std::shared_ptr<Event> recorded = events_.at(*event);
  const std::uint64_t version = ++recorded->recorded;
  push(stream, {"", [recorded, version] { recorded->reached = version; }, nullptr, 0, Eagerness::kNormal});
}

void FakeDevice::block(void* event, c10::StreamId stream) {
  const Lock lock(mutex_);
  const std::shared_ptr<Event> awaited = events_.at(event);
  push(stream, {"", [] {}, awaited, awaited->recorded, Eagerness::kNormal});
}

bool FakeDevice::query(void* event) {
  const Lock lock(mutex_);
  let_time_pass();
  const Event& asked = *events_.at(event);
  return asked.reached == asked.recorded;
}

void FakeDevice::destroy(void* event) {
  const Lock lock(mutex_);
  events_.erase(event);
}

void FakeDevice::synchronize(c10::StreamId stream) {
  Lock lock(mutex_);
  if (broken_) throw std::runtime_error("the device is gone");
  ++waiting_;
  changed_.notify_all();
  while (!queues_[stream].empty()) {
    if (run_one(Eagerness::kNormal)) continue;
    if (waiting_ + done_ < threads_) {
      changed_.wait(lock);
    } else {
      // Everybody waits and nothing can run: not to be mended by waiting.
      SHOAL_CHECK(run_one(Eagerness::kReluctant));
    }
  }
  --waiting_;
}

void FakeDevice::push(c10::StreamId stream, Operation operation) {
  queues_[stream].push_back(std::move(operation));
  changed_.notify_all();
  let_time_pass();
}

void FakeDevice::let_time_pass() {
  if (order_ == Order::kEager) {
    while (run_one(Eagerness::kNormal)) {
    }
    return;
  }
  for (std::uint64_t operations = random_() % 3; operations > 0; --operations) run_one(Eagerness::kNormal);
}

bool FakeDevice::run_one(Eagerness eagerness) {
  std::vector<std::deque<Operation>*> ready;
  for (auto& [stream, queue] : queues_) {
    if (queue.empty() || queue.front().eagerness != eagerness) continue;
    const Operation& first = queue.front();
    if (first.waits_for == nullptr || first.waits_for->reached >= first.version) ready.push_back(&queue);
  }
  if (ready.empty()) return false;
  std::deque<Operation>& chosen = *ready[random_() % ready.size()];
  const Operation operation = std::move(chosen.front());
  chosen.pop_front();
  operation.run();
  if (!operation.label.empty()) log_.push_back(operation.label);
  changed_.notify_all();
  return true;
}

DeviceBlock FakeMemory::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  auto* const memory = static_cast<std::byte*>(::operator new(bytes));
  std::memset(memory, 0xEE, bytes);
  return {memory, [](std::byte* block) { ::operator delete(block); }};
}

void FakeMemory::copy_in(std::byte* device, const std::byte* host, std::size_t bytes) {
  copy("in", device, host, bytes);
}

void FakeMemory::copy_out(std::byte* host, const std::byte* device, std::size_t bytes) {
  copy("out", host, device, bytes);
}

void FakeMemory::copy(const char* what, std::byte* to, const std::byte* from, std::size_t bytes) {
  if (copies_left_ == 0) {
    copies_left_ = ~0U;
    throw std::runtime_error(std::string("copy ") + what + " failed");
  }
  --copies_left_;
  streams_[what] = current;
  FakeDevice::get().enqueue(label_ + what, [=] {
    if (bytes != 0) std::memcpy(to, from, bytes);
  });
}

}  // namespace shoal
