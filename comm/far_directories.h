// What this rank knows of the directories of ranks whose memory it cannot map. Between hosts every get waits for the
// other side's communication thread, so entries come 256 at a time and are kept for the round.
// Belongs to the communication thread.
#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/arena_window.h"
#include "store/types.h"

namespace shoal {

// What a DirectoryEntry was when it was read.
struct ListedRecord {
  Version version = 0;  // 0: not in RAM
  std::uint64_t place = 0;
  friend bool operator==(const ListedRecord&, const ListedRecord&) = default;
};

class FarDirectories {
 public:
  // Where a rank's directory begins in its window.
  static constexpr std::uint64_t kOffset = 64;

  // `nodes`: of every rank. `slots`: pieces that may be on their way at once.
  FarDirectories(ArenaWindow& window, unsigned own_rank, std::vector<NodeId> nodes, std::uint32_t slots);
  static std::uint64_t bytes_for(std::uint64_t others, std::uint32_t slots) {
    return others * (sizeof(ListedRecord) + 1) + slots * sizeof(Piece);
  }

  // Null: not read in this round.
  const ListedRecord* find(unsigned rank, NodeId node, std::uint64_t round) const;
  // Starts to read the piece with that entry; take_piece() when it is there.
  void get_piece(unsigned rank, NodeId node, std::uint32_t slot, MPI_Request* request);
  const ListedRecord& take_piece(unsigned rank, NodeId node, std::uint64_t round, std::uint32_t slot);
  // That entry alone, as it is now; not kept.
  void get(unsigned rank, NodeId node, ListedRecord& entry, MPI_Request* request);

 private:
  // As many as take as long to get as one.
  static constexpr NodeId kTogether = 256;
  using Piece = std::array<ListedRecord, kTogether>;
  struct Directory {
    std::vector<ListedRecord> entries;
    std::vector<std::uint64_t> rounds;  // by piece: in which it was read
  };
  std::span<ListedRecord> piece_of(Directory& directory, NodeId node) const;

  ArenaWindow& window_;
  std::vector<Directory> directories_;  // by rank; empty where its memory is mapped
  std::vector<Piece> coming_;           // by slot
};

}  // namespace shoal
