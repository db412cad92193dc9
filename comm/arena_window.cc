#include "comm/arena_window.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <limits>
#include <optional>
#include <thread>

#include "comm/mpi_error.h"
#include "store/error.h"
#include "store/size_text.h"
#include "store/types.h"

namespace shoal {
namespace {

// A piece of a file in this process's memory, as /proc/self/maps tells.
struct FileMapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;  // 0: no file
};

std::vector<FileMapping> mappings() {
  std::vector<FileMapping> all;
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    FileMapping m;
    std::uint64_t major = 0;
    std::uint64_t minor = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %" SCNx64 ":%" SCNx64 " %" SCNu64, &m.begin,
                    &m.end, &m.offset, &major, &minor, &m.inode) != 6) {
      continue;
    }
    m.device = major << 32 | minor;
    all.push_back(m);
  }
  return all;
}

// Where a rank's memory is in the file behind it. One rank can find another's if both have that file mapped.
struct Whereabouts {
  std::uint64_t skip = 0;
  std::uint64_t bytes = 0;
  std::uint64_t host_leader = 0;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t offset = 0;
};

// A word of this process's memory, if there is one at that address.
std::optional<std::uint64_t> peek(std::uint64_t address) {
  std::uint64_t word = 0;
  const iovec to{&word, sizeof(word)};
  const iovec from{reinterpret_cast<void*>(address), sizeof(word)};  // NOLINT: an address is what it is
  if (::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) != sizeof(word)) return std::nullopt;
  return word;
}

// MPI has no question for it. Open MPI's window object points to a module, a table of functions, and the functions are
// in the component's own shared library.
std::string component_of(MPI_Win window) {
  constexpr std::string_view kPrefix = "mca_osc_";
  const auto object = reinterpret_cast<std::uint64_t>(window);
  for (std::uint64_t at = object; at < object + 1024; at += sizeof(void*)) {
    const auto module = peek(at);
    if (!module || *module % sizeof(void*) != 0) continue;
    for (std::uint64_t k = 0; k < 8; ++k) {
      const auto function = peek(*module + k * sizeof(void*));
      Dl_info info{};
      if (!function || ::dladdr(reinterpret_cast<void*>(*function), &info) == 0 || info.dli_fname == nullptr) continue;
      const std::string_view library(info.dli_fname);
      const std::size_t name = library.rfind(kPrefix);
      if (name == std::string_view::npos) continue;
      const std::string_view rest = library.substr(name + kPrefix.size());
      return std::string(rest.substr(0, rest.find('.')));
    }
  }
  return "unknown";
}

// Memory of ranks of one host comes from there, and the first to touch what is not there would get a bus error.
std::exception_ptr lack_of_shared_memory(std::uint64_t bytes, unsigned ranks_here) {
  struct statvfs shared {};
  const std::uint64_t wanted = bytes * ranks_here;
  if (ranks_here == 1 || ::statvfs("/dev/shm", &shared) != 0) return nullptr;
  const std::uint64_t there = shared.f_bavail * shared.f_frsize;
  if (there >= wanted) return nullptr;
  return std::make_exception_ptr(
      Error(fmt::format("{} ranks of this host share about {} of memory, and /dev/shm has {} free; make it larger "
                        "(mount -o remount,size=..., docker run --shm-size), or give less --ram",
                        ranks_here, size_text(wanted), size_text(there))));
}

// That a file system's memory comes in huge pages: then whoever looks at one maps, and counts, all of it.
bool has_huge_pages(std::uint64_t device) {
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::uint64_t major = 0;
    std::uint64_t minor = 0;
    if (std::sscanf(line.c_str(), "%*u %*u %" SCNu64 ":%" SCNu64, &major, &minor) != 2) continue;
    if ((major << 32 | minor) != device) continue;
    for (const char* option : {"huge=always", "huge=within_size"}) {
      if (line.find(option) != std::string::npos) return true;
    }
  }
  return false;
}

constexpr std::uint64_t kCopiedAtOnce = 512 << 10;
constexpr std::uint64_t kPagesMappedAtOnce = 64 << 10;
constexpr std::uint64_t kHugePageMappedAtOnce = 2 << 20;

}  // namespace

std::uint64_t ArenaWindow::mapped_share(std::uint64_t ram_bytes) {
  return std::clamp<std::uint64_t>(ram_bytes / 16, 4 << 20, 1 << 30);
}

ArenaWindow::ArenaWindow(Communicator& ranks, std::uint64_t bytes, HostReads host_reads, std::uint64_t mapped_bytes)
    : ranks_(ranks), mapped_bytes_(mapped_bytes) {
  ranks_.agree(lack_of_shared_memory(bytes, ranks.local_size()));
  ranks_.run([&] {
    allocate(bytes);
    return true;
  });
  find_peers(host_reads);
  test_progress();
}

ArenaWindow::~ArenaWindow() {
  ranks_.barrier();
  ranks_.run([&] {
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
    return true;
  });
}

void ArenaWindow::allocate(std::uint64_t bytes) {
  void* base = nullptr;
  check(MPI_Win_allocate(static_cast<MPI_Aint>(bytes + kBlockBytes), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window_),
        fmt::format("the MPI library has no window of {} over all ranks (a component that --mca osc or OMPI_MCA_osc "
                    "names must reach all of them): MPI_Win_allocate",
                    size_text(bytes)));
  check(MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
  const auto address = reinterpret_cast<std::uint64_t>(base);
  memory_ = {static_cast<std::byte*>(base) + (round_up(address, kBlockBytes) - address), bytes};
  check(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_), "MPI_Win_lock_all");
  component_ = component_of(window_);
}

void ArenaWindow::find_peers(HostReads host_reads) {
  const std::vector<FileMapping> known = mappings();
  const auto address = reinterpret_cast<std::uint64_t>(memory_.data());
  Whereabouts own;
  own.bytes = memory_.size();
  own.host_leader = host_reads == HostReads::kMapped ? ranks_.host_leader() : ranks_.rank();
  void* base = nullptr;
  int found = 0;
  ranks_.run([&] {
    check(MPI_Win_get_attr(window_, MPI_WIN_BASE, &base, &found), "MPI_Win_get_attr");
    return true;
  });
  own.skip = address - reinterpret_cast<std::uint64_t>(base);
  for (const FileMapping& m : known) {
    if (address < m.begin || address + memory_.size() > m.end) continue;
    own.device = m.device;
    own.inode = m.inode;
    own.offset = m.offset + (address - m.begin);
  }
  mapped_at_once_ = has_huge_pages(own.device) ? kHugePageMappedAtOnce : kPagesMappedAtOnce;
  peers_.resize(ranks_.size());
  const auto all = ranks_.gather_everywhere(std::as_bytes(std::span(&own, 1)));
  for (unsigned rank = 0; rank < ranks_.size(); ++rank) {
    Whereabouts peer;
    std::memcpy(&peer, all[rank].data(), sizeof(peer));
    peers_[rank].skip = peer.skip;
    peers_[rank].bytes = peer.bytes;
    if (peer.host_leader != own.host_leader || peer.inode == 0 || rank == ranks_.rank()) continue;
    for (const FileMapping& m : known) {
      const bool same = m.device == peer.device && m.inode == peer.inode;
      if (!same || peer.offset < m.offset || peer.offset + peer.bytes > m.offset + (m.end - m.begin)) continue;
      const std::uint64_t begin = m.begin + (peer.offset - m.offset);
      peers_[rank].mapped = reinterpret_cast<const std::byte*>(begin);  // NOLINT
      // Pages are mapped together by their addresses, and a huge one is where it is in the file.
      peers_[rank].before = (mapped_at_once_ == kHugePageMappedAtOnce ? peer.offset : begin) % mapped_at_once_;
    }
  }
  for (Peer& peer : peers_) {
    if (peer.mapped == nullptr) continue;
    peer.counted.resize(peer.bytes / mapped_at_once_ + 2);
    peer.readers.resize(peer.counted.size());
  }
}

bool ArenaWindow::reads_one_sided() const {
  for (unsigned rank = 0; rank < peers_.size(); ++rank) {
    if (rank != ranks_.rank() && peers_[rank].mapped == nullptr) return true;
  }
  return false;
}

ArenaWindow::Pieces ArenaWindow::pieces_of(unsigned rank, std::uint64_t offset, std::uint64_t bytes) const {
  const std::uint64_t begin = peers_[rank].before + offset;
  return {begin / mapped_at_once_, round_up(begin + bytes, mapped_at_once_) / mapped_at_once_};
}

// What is being read in place may come back as soon as all is given back: it stays counted.
void ArenaWindow::count(unsigned rank, Pieces pieces) {
  const auto uncounted = [&] {
    std::uint64_t more = 0;
    for (std::uint64_t k = pieces.begin; k < pieces.end; ++k) more += peers_[rank].counted[k] ? 0 : mapped_at_once_;
    return more;
  };
  if (counted_bytes_ + uncounted() > mapped_bytes_) {
    for (Peer& peer : peers_) {
      if (peer.mapped == nullptr) continue;
      for (std::uint64_t k = 0; k < peer.counted.size(); ++k) peer.counted[k] = peer.readers[k] > 0;
      // The memory stays; it is this process's view of it that goes.
      ::madvise(const_cast<std::byte*>(peer.mapped), peer.bytes, MADV_DONTNEED);
    }
    counted_bytes_ = in_place_bytes_;
  }
  counted_bytes_ += uncounted();
  for (std::uint64_t k = pieces.begin; k < pieces.end; ++k) peers_[rank].counted[k] = true;
}

void ArenaWindow::copy(unsigned rank, std::uint64_t offset, std::span<std::byte> out) {
  for (std::uint64_t at = 0; at < out.size(); at += kCopiedAtOnce) {
    const auto part = out.subspan(at, std::min<std::uint64_t>(kCopiedAtOnce, out.size() - at));
    const std::scoped_lock lock(pages_mutex_);
    count(rank, pieces_of(rank, offset + at, part.size()));
    std::memcpy(part.data(), peers_[rank].mapped + offset + at, part.size());
  }
}

const std::byte* ArenaWindow::begin_in_place(unsigned rank, std::uint64_t offset, std::uint64_t bytes) {
  const std::scoped_lock lock(pages_mutex_);
  const Pieces pieces = pieces_of(rank, offset, bytes);
  std::vector<std::uint32_t>& readers = peers_[rank].readers;
  std::uint64_t more = 0;
  for (std::uint64_t k = pieces.begin; k < pieces.end; ++k) more += readers[k] == 0 ? mapped_at_once_ : 0;
  // The rest is for what is copied.
  const std::uint64_t rest = std::max(mapped_bytes_ / 4, round_up(kCopiedAtOnce, mapped_at_once_) + mapped_at_once_);
  if (in_place_bytes_ + more + rest > mapped_bytes_) return nullptr;
  count(rank, pieces);
  in_place_bytes_ += more;
  for (std::uint64_t k = pieces.begin; k < pieces.end; ++k) ++readers[k];
  return peers_[rank].mapped + offset;
}

void ArenaWindow::end_in_place(unsigned rank, const std::byte* memory, std::uint64_t bytes) {
  const std::scoped_lock lock(pages_mutex_);
  const Pieces pieces = pieces_of(rank, static_cast<std::uint64_t>(memory - peers_[rank].mapped), bytes);
  for (std::uint64_t k = pieces.begin; k < pieces.end; ++k) {
    if (--peers_[rank].readers[k] == 0) in_place_bytes_ -= mapped_at_once_;
  }
}

void ArenaWindow::get(unsigned rank, std::uint64_t offset, std::span<std::byte> out, MPI_Request* request) {
  SHOAL_CHECK(out.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max()));
  const int count = static_cast<int>(out.size());
  check(MPI_Rget(out.data(), count, MPI_BYTE, static_cast<int>(rank), static_cast<MPI_Aint>(peers_[rank].skip + offset),
                 count, MPI_BYTE, window_, request),
        "MPI_Rget");
}

// The last rank reads from rank 0, which meanwhile makes no MPI call.
void ArenaWindow::test_progress() {
  std::memset(memory_.data(), 0, std::min<std::size_t>(memory_.size(), kBlockBytes));
  ranks_.barrier();
  const unsigned reader = ranks_.size() - 1;
  std::int64_t nanoseconds = 0;
  if (ranks_.first()) {
    ranks_.run([] {
      std::this_thread::sleep_for(std::chrono::duration<double>(kAwaySeconds));
      return true;
    });
  } else if (ranks_.rank() == reader) {
    std::array<std::byte, 64> word{};
    ranks_.run([&] {
      std::this_thread::sleep_for(std::chrono::duration<double>(kAwaySeconds / 5));  // by then it is away
      const auto start = std::chrono::steady_clock::now();
      MPI_Request request = MPI_REQUEST_NULL;
      get(0, 0, word, &request);
      check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
      nanoseconds =
          std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
      return true;
    });
  }
  ranks_.sum(std::span(&nanoseconds, 1));
  self_test_seconds_ = static_cast<double>(nanoseconds) * 1e-9;
}

std::string ArenaWindow::description() const {
  const auto mapped =
      std::count_if(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.mapped != nullptr; });
  const bool small_pages = mapped > 0 && mapped_at_once_ == kPagesMappedAtOnce;
  const bool passive = self_test_seconds_ < kAwaySeconds / 2;
  return fmt::format(
      "osc/{}, {} of {} other ranks through shared memory{}; a read from a rank outside of MPI took {:.1f} us: "
      "progress {}",
      component_, mapped, peers_.size() - 1, small_pages ? " in small pages (README: Several ranks)" : "",
      self_test_seconds_ * 1e6, passive ? "is passive" : "comes from the communication threads");
}

}  // namespace shoal
