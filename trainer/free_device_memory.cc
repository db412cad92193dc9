#include "trainer/free_device_memory.h"

#include <charconv>
#include <cstddef>
#include <string_view>

#include "trainer/cuda_runtime.h"

namespace shoal {
namespace {

// 0 is success in all of them.
using GetDevice = int (*)(int*);
using SetDevice = int (*)(int);
using MemoryInfo = int (*)(std::size_t* free, std::size_t* total);

// "cuda" is the first one, as it is for a run.
std::optional<int> number_of(std::string_view device) {
  constexpr std::string_view kName = "cuda";
  if (!device.starts_with(kName)) return std::nullopt;
  device.remove_prefix(kName.size());
  if (device.empty()) return 0;
  int number = -1;
  const auto [end, error] = std::from_chars(device.data() + 1, device.data() + device.size(), number);
  if (device.front() != ':' || error != std::errc() || end != device.data() + device.size()) return std::nullopt;
  return number;
}

}  // namespace

std::optional<std::uint64_t> free_device_memory(const std::string& device) {
  const std::optional<int> number = number_of(device);
  const auto get_device = in_process<GetDevice>("cudaGetDevice");
  const auto set_device = in_process<SetDevice>("cudaSetDevice");
  const auto memory_info = in_process<MemoryInfo>("cudaMemGetInfo");
  if (!number || get_device == nullptr || set_device == nullptr || memory_info == nullptr) return std::nullopt;
  int before = 0;
  if (get_device(&before) != 0 || set_device(*number) != 0) return std::nullopt;
  std::size_t free = 0;
  std::size_t total = 0;
  const bool told = memory_info(&free, &total) == 0;
  set_device(before);
  if (!told) return std::nullopt;
  return free;
}

}  // namespace shoal
