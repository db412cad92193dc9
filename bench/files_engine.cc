// One file per node and part, through the page cache: what a script would do. Public records have two files, so that
// readers of this round see the last round's.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "bench/engine_kinds.h"
#include "bench/generations.h"
#include "bench/step_buffers.h"
#include "bench/worker_threads.h"
#include "store/error.h"

namespace shoal::bench {
namespace {

class FileHandle {
 public:
  FileHandle(int directory, const char* name, int flags) : fd_(::openat(directory, name, flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) throw_errno(fmt::format("files engine: opening {}", name), errno);
  }
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  ~FileHandle() { ::close(fd_); }
  int get() const { return fd_; }

 private:
  int fd_;
};

class FilesEngine final : public Engine {
 public:
  explicit FilesEngine(const EngineOptions& options)
      : threads_(options.threads),
        directory_(AT_FDCWD, options.directory.c_str(), O_RDONLY | O_DIRECTORY),
        generations_(options.nodes) {
    for (unsigned i = 0; i < threads_; ++i)
      buffers_.emplace_back(options.layout, std::max<std::size_t>(options.degree, 1));
  }

  RoundFigures run_round(const std::shared_ptr<const AccessPlan>& round,
                         const std::shared_ptr<const AccessPlan>& /*next*/, const Work& work) override {
    RoundFigures figures;
    figures.operations = run_steps(
        *round, threads_, [&](unsigned thread, std::size_t step) { run_step(*round, step, work, buffers_[thread]); });
    generations_.end_round(*round);
    // One call for all the round wrote: an fsync for each of thousands of files would take several times as long.
    if (::syncfs(directory_.get()) != 0) throw_errno("files engine: syncfs", errno);
    return figures;
  }

 private:
  // Whole pages, so that overwriting needs no read of a partial last page.
  void read(const char* name, std::byte* data, std::size_t bytes) const {
    const FileHandle file(directory_.get(), name, O_RDONLY);
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t got = ::pread(file.get(), data + done, bytes - done, static_cast<off_t>(done));
      if (got < 0) throw_errno(fmt::format("files engine: reading {}", name), errno);
      if (got == 0) throw Error(fmt::format("files engine: {} is only {} bytes long", name, done));
      done += static_cast<std::size_t>(got);
    }
  }

  void write(const char* name, const std::byte* data, std::size_t bytes) const {
    const FileHandle file(directory_.get(), name, O_WRONLY | O_CREAT);
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t put = ::pwrite(file.get(), data + done, bytes - done, static_cast<off_t>(done));
      if (put < 0) throw_errno(fmt::format("files engine: writing {}", name), errno);
      done += static_cast<std::size_t>(put);
    }
  }

  static std::string public_name(NodeId node, unsigned generation) { return fmt::format("{}.{}", node, generation); }
  static std::string private_name(NodeId node) { return fmt::format("{}.p", node); }

  void run_step(const AccessPlan& plan, std::size_t step, const Work& work, StepBuffers& memory) const {
    const StepKind kind = plan.kind(step);
    const NodeId node = plan.node(step);
    const bool keeps = uses_private(kind) && memory.private_bytes() != 0;
    if (reads_own(kind)) {
      read(public_name(node, generations_.current(node)).c_str(), memory.current(), memory.public_bytes());
      if (keeps) read(private_name(node).c_str(), memory.private_state(), memory.private_bytes());
    }
    memory.reads.clear();
    for (const NodeId other : plan.reads(step)) {
      std::byte* place = memory.read(memory.reads.size());
      read(public_name(other, generations_.current(other)).c_str(), place, memory.public_bytes());
      memory.reads.push_back(place);
    }
    work({kind, node, plan.reads(step), reads_own(kind) ? memory.current() : nullptr,
          writes(kind) ? memory.next() : nullptr, keeps ? memory.private_state() : nullptr, memory.reads});
    if (writes(kind)) {
      write(public_name(node, generations_.next(node)).c_str(), memory.next(), memory.public_bytes());
      if (keeps) write(private_name(node).c_str(), memory.private_state(), memory.private_bytes());
    }
  }

  unsigned threads_;
  FileHandle directory_;
  Generations generations_;
  std::vector<StepBuffers> buffers_;
};

}  // namespace

std::unique_ptr<Engine> make_files_engine(const EngineOptions& options) {
  return std::make_unique<FilesEngine>(options);
}

}  // namespace shoal::bench
