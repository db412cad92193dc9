// RAM that a new program may take: what the machine has free, or less where a memory cgroup (a container, a Slurm job)
// says so.
#pragma once

#include <cstdint>
#include <filesystem>

namespace shoal {

// `root` is where proc and sys are, in tests. A usage Error where nothing says what is free.
std::uint64_t free_ram(const std::filesystem::path& root = "/");

}  // namespace shoal
