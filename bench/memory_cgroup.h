// A memory cgroup for one engine's process, so that page cache counts as RAM for all of them alike.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace shoal::bench {

// A sanitizer's shadow memory is several times the program's own: such a build is neither limited nor judged.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

class MemoryCgroup {
 public:
  // Under this process's own cgroup; version 1 or 2, whichever has the memory controller. Nothing, and the reason,
  // where that is not allowed.
  static std::optional<MemoryCgroup> create(std::uint64_t limit_bytes, std::string& reason);

  MemoryCgroup(MemoryCgroup&& other) noexcept;
  MemoryCgroup& operator=(MemoryCgroup&&) = delete;
  ~MemoryCgroup();  // removes the cgroup; its processes must have ended

  void join() const;  // the calling process; throws Error
  std::uint64_t limit_bytes() const { return limit_bytes_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  MemoryCgroup(std::filesystem::path path, std::uint64_t limit_bytes)
      : path_(std::move(path)), limit_bytes_(limit_bytes) {}

  std::filesystem::path path_;
  std::uint64_t limit_bytes_;
};

}  // namespace shoal::bench
