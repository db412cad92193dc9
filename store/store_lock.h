// One run at a time: an advisory lock on STORE/lock, held for the object's life. The kernel lets go of it when the
// process dies, however it dies.
#pragma once

#include <filesystem>

namespace shoal {

class StoreLock {
 public:
  explicit StoreLock(
      const std::filesystem::path& directory);  // Error, naming the holder's process id, when it is taken
  ~StoreLock();
  StoreLock(const StoreLock&) = delete;
  StoreLock& operator=(const StoreLock&) = delete;

 private:
  int fd_;
};

}  // namespace shoal
