#include "trainer/host_registration.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/cuda_runtime.h"

namespace shoal {
namespace {

using Register = int (*)(void*, std::size_t, unsigned);
using Unregister = int (*)(void*);
using ErrorText = const char* (*)(int);
constexpr unsigned kForAllDevices = 1;  // cudaHostRegisterPortable

}  // namespace

HostRegistration::HostRegistration(std::span<std::byte> memory) {
  const auto call = in_process<Register>("cudaHostRegister");
  const auto error_text = in_process<ErrorText>("cudaGetErrorString");
  if (call == nullptr || error_text == nullptr || in_process<Unregister>("cudaHostUnregister") == nullptr) {
    refusal_ = "there is no CUDA runtime in this process";
    return;
  }
  const int error = call(memory.data(), memory.size(), kForAllDevices);
  if (error != 0) {
    refusal_ = fmt::format("cudaHostRegister: {}", error_text(error));
    return;
  }
  registered_ = memory.data();
}

HostRegistration::~HostRegistration() { release(); }

HostRegistration::HostRegistration(HostRegistration&& other) noexcept
    : registered_(std::exchange(other.registered_, nullptr)), refusal_(std::move(other.refusal_)) {}

HostRegistration& HostRegistration::operator=(HostRegistration&& other) noexcept {
  if (this != &other) {
    release();
    registered_ = std::exchange(other.registered_, nullptr);
    refusal_ = std::move(other.refusal_);
  }
  return *this;
}

void HostRegistration::release() noexcept {
  if (registered_ == nullptr) return;
  in_process<Unregister>("cudaHostUnregister")(registered_);
  registered_ = nullptr;
}

}  // namespace shoal
