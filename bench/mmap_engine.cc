// One big file, mapped; the kernel decides what stays in RAM. Two generations of public records, then the private ones.
//
// Plain, a fault reads what the kernel thinks good: up to read_ahead_kb around it, which is 8 MiB on some machines and
// thrashes when ten records are read side by side in little RAM. Advised, it reads what a step says it will need.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "bench/engine_kinds.h"
#include "bench/generations.h"
#include "bench/worker_threads.h"
#include "store/error.h"

namespace shoal::bench {
namespace {

class Mapping {
 public:
  Mapping(const std::filesystem::path& path, std::uint64_t bytes) : bytes_(bytes) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file < 0) throw_errno(fmt::format("creating {}", path.string()), errno);
    // Blocks now, so that a full disk is an error here and not a SIGBUS later.
    const int allocated = ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
    void* start = allocated == 0 ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    const int error = allocated != 0 ? allocated : errno;
    ::close(file);
    if (start == MAP_FAILED) throw_errno(fmt::format("mapping {} of {} bytes", path.string(), bytes), error);
    start_ = static_cast<std::byte*>(start);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { ::munmap(start_, bytes_); }

  std::byte* at(std::uint64_t offset) const { return start_ + offset; }

  void advise(const std::byte* start, std::size_t bytes, int advice) const {
    if (bytes == 0) return;
    if (::madvise(const_cast<std::byte*>(start), bytes, advice) != 0) throw_errno("madvise of the mmap engine", errno);
  }
  void advise_all(int advice) const { advise(start_, bytes_, advice); }

  void sync() const {
    if (::msync(start_, bytes_, MS_SYNC) != 0) throw_errno("msync of the mmap engine's file", errno);
  }

 private:
  std::byte* start_ = nullptr;
  std::uint64_t bytes_;
};

enum class Advice { kNone, kRecords };

class MmapEngine final : public Engine {
 public:
  MmapEngine(const EngineOptions& options, Advice advice)
      : advice_(advice),
        nodes_(options.nodes),
        threads_(options.threads),
        public_stride_(round_up(options.layout.payload_bytes(Part::kPublic), kBlockBytes)),
        private_stride_(round_up(options.layout.payload_bytes(Part::kPrivate), kBlockBytes)),
        mapping_(options.directory / "records", nodes_ * (2 * public_stride_ + private_stride_)),
        generations_(options.nodes) {
    if (advice_ == Advice::kRecords) mapping_.advise_all(MADV_RANDOM);
  }

  RoundFigures run_round(const std::shared_ptr<const AccessPlan>& round,
                         const std::shared_ptr<const AccessPlan>& /*next*/, const Work& work) override {
    std::vector<std::vector<const std::byte*>> reads(threads_);
    RoundFigures figures;
    figures.operations = run_steps(*round, threads_, [&](unsigned thread, std::size_t step) {
      const StepKind kind = round->kind(step);
      const NodeId node = round->node(step);
      reads[thread].clear();
      for (const NodeId read : round->reads(step)) reads[thread].push_back(published(read, generations_.current(read)));
      const std::byte* current = reads_own(kind) ? published(node, generations_.current(node)) : nullptr;
      std::byte* next = writes(kind) ? published(node, generations_.next(node)) : nullptr;
      std::byte* private_state = uses_private(kind) ? kept(node) : nullptr;
      if (advice_ == Advice::kRecords) {
        for (const std::byte* record : reads[thread]) will_need(record, public_stride_);
        will_need(current, public_stride_);
        will_need(next, public_stride_);  // a page is read before it can be written in part
        will_need(private_state, private_stride_);
      }
      work({kind, node, round->reads(step), current, next, private_state, reads[thread]});
    });
    generations_.end_round(*round);
    mapping_.sync();
    return figures;
  }

 private:
  std::byte* published(NodeId node, unsigned generation) const {
    return mapping_.at((generation * nodes_ + node) * public_stride_);
  }
  std::byte* kept(NodeId node) const { return mapping_.at(2 * nodes_ * public_stride_ + node * private_stride_); }

  void will_need(const std::byte* record, std::uint64_t bytes) const {
    if (record != nullptr) mapping_.advise(record, bytes, MADV_WILLNEED);
  }

  Advice advice_;
  std::uint64_t nodes_;
  unsigned threads_;
  std::uint64_t public_stride_;
  std::uint64_t private_stride_;
  Mapping mapping_;
  Generations generations_;
};

}  // namespace

std::unique_ptr<Engine> make_mmap_engine(const EngineOptions& options) {
  return std::make_unique<MmapEngine>(options, Advice::kNone);
}

std::unique_ptr<Engine> make_mmap_advised_engine(const EngineOptions& options) {
  return std::make_unique<MmapEngine>(options, Advice::kRecords);
}

}  // namespace shoal::bench
