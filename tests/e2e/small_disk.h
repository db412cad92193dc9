// A file system of its own, as large as one says, that can be filled up. Takes root.
#pragma once

#include <sys/mount.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/store/temporary_directory.h"

namespace shoal {

class SmallDisk {
 public:
  explicit SmallDisk(const char* size) {
    const std::string options = std::string("size=") + size;
    if (::mount("shoal-test", path().c_str(), "tmpfs", 0, options.c_str()) != 0) error_ = errno;
  }
  ~SmallDisk() {
    if (error_ == 0) ::umount2(path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  int error() const { return error_; }
  const std::filesystem::path& path() const { return folder_.path(); }

  void fill() const {
    std::ofstream file(path() / "filler", std::ios::binary);
    for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{4096}}) {
      const std::string block(bytes, 'x');
      file.clear();
      while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) continue;
    }
  }
  void clear() const { std::filesystem::remove(path() / "filler"); }

 private:
  TemporaryDirectory folder_;
  int error_ = 0;
};

}  // namespace shoal
