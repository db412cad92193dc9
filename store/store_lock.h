// One run, or any number of readers, at a time: an advisory lock on STORE/lock, held for the object's life. The kernel
// lets go of it when the process dies, however it dies.
#pragma once

#include <filesystem>

namespace shoal {

enum class LockKind { kRun, kReader };

class StoreLock {
 public:
  // Error when it is taken, naming the process id if a run has it. A reader leaves the file as it is.
  explicit StoreLock(const std::filesystem::path& directory, LockKind kind = LockKind::kRun);
  ~StoreLock();
  StoreLock(const StoreLock&) = delete;
  StoreLock& operator=(const StoreLock&) = delete;

  // Before it is let go, with the store that it is for: whoever waits with the old file in hand sees that it is gone.
  void remove_file();

 private:
  const std::filesystem::path path_;
  int fd_;
};

}  // namespace shoal
