// Memory that somebody else has allocated (MPI's window), page-locked for CUDA devices: they copy from and to it by
// themselves, where they would otherwise go through buffers of the driver.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace shoal {

class HostRegistration {
 public:
  HostRegistration() = default;
  // The memory must outlive this. A refusal is no error: copies are slower then, and refusal() says why.
  explicit HostRegistration(std::span<std::byte> memory);
  ~HostRegistration();
  HostRegistration(HostRegistration&& other) noexcept;
  HostRegistration& operator=(HostRegistration&& other) noexcept;

  const std::string& refusal() const { return refusal_; }  // empty: there was none

 private:
  void release() noexcept;

  std::byte* registered_ = nullptr;
  std::string refusal_;
};

}  // namespace shoal
