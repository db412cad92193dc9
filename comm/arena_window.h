// Memory of this rank that all others read one-sided: the store's arena and its directory.
//
// It comes from MPI_Win_allocate. Ranks of one host get it from one piece of shared memory, which the MPI library maps
// into all of them; where that is so, mapped() tells where another rank's memory is in this process, and reading it
// takes no call at all.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace shoal {

enum class HostReads { kMapped, kOneSided };

class ArenaWindow {
 public:
  // Collective, as is the destructor. Zeroed, aligned to pages. kOneSided: as if every rank were on a host of its own.
  // `mapped_bytes`: of other ranks' memory that may be this process's as well.
  ArenaWindow(Communicator& ranks, std::uint64_t bytes, HostReads host_reads, std::uint64_t mapped_bytes);
  ~ArenaWindow();
  ArenaWindow(const ArenaWindow&) = delete;
  ArenaWindow& operator=(const ArenaWindow&) = delete;

  std::span<std::byte> memory() const { return memory_; }
  // Another rank's memory as this process sees it; null where it does not.
  const std::byte* mapped(unsigned rank) const { return peers_[rank].mapped; }
  bool reads_one_sided() const;  // of some ranks
  // Pages of other ranks that are read through mapped() count as this process's until they are let go: all of them,
  // before they become more than `mapped_bytes`. Mapping them again costs more than reading them. So what is read that
  // way is either copied, or told of before and after. Any thread.
  void copy(unsigned rank, std::uint64_t offset, std::span<std::byte> out);
  // Null: what is being read in place already is as much as may be, three quarters of what may be mapped or less.
  const std::byte* begin_in_place(unsigned rank, std::uint64_t offset, std::uint64_t bytes);
  void end_in_place(unsigned rank, const std::byte* memory, std::uint64_t bytes);
  // How much one look at them maps, and counts, at most: a piece of the pages beside it, or a huge one.
  std::uint64_t mapped_at_once() const { return mapped_at_once_; }
  // The share of --ram that is well spent on it.
  static std::uint64_t mapped_share(std::uint64_t ram_bytes);

  // On the communication thread: starts to read from another rank's memory.
  void get(unsigned rank, std::uint64_t offset, std::span<std::byte> out, MPI_Request* request);

  const std::string& component() const { return component_; }  // of the MPI library: "rdma", "pt2pt"
  // How long a read took whose target stayed out of MPI for kAway; progress is passive if that is much less.
  double self_test_seconds() const { return self_test_seconds_; }
  static constexpr double kAwaySeconds = 0.05;
  std::string description() const;  // for people

 private:
  struct Peer {
    std::uint64_t skip = 0;  // from the start of the window to the start of the memory
    std::uint64_t bytes = 0;
    const std::byte* mapped = nullptr;
    std::uint64_t before = 0;  // of the first piece
    // By pieces of mapped_at_once_ bytes.
    std::vector<bool> counted;
    std::vector<std::uint32_t> readers;  // in place
  };
  struct Pieces {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  Pieces pieces_of(unsigned rank, std::uint64_t offset, std::uint64_t bytes) const;
  void count(unsigned rank, Pieces pieces);
  void allocate(std::uint64_t bytes);
  void find_peers(HostReads host_reads);
  void test_progress();

  Communicator& ranks_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::span<std::byte> memory_;
  std::vector<Peer> peers_;
  const std::uint64_t mapped_bytes_;
  std::uint64_t mapped_at_once_ = 0;  // as far as one page fault goes: to both ends of such a piece
  std::mutex pages_mutex_;            // guards what follows, and the peers' pieces
  std::uint64_t counted_bytes_ = 0;   // that may be mapped
  std::uint64_t in_place_bytes_ = 0;  // of those, that may be mapped again at any time
  std::string component_;
  double self_test_seconds_ = 0;
};

}  // namespace shoal
