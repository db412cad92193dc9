#include "comm/far_directories.h"

#include <algorithm>
#include <limits>

#include "store/peer_link.h"

namespace shoal {
namespace {

constexpr std::uint64_t kNoRound = std::numeric_limits<std::uint64_t>::max();

static_assert(sizeof(ListedRecord) == sizeof(DirectoryEntry), "read as the bytes of one");

}  // namespace

FarDirectories::FarDirectories(ArenaWindow& window, unsigned own_rank, std::vector<NodeId> nodes, std::uint32_t slots)
    : window_(window), directories_(nodes.size()), coming_(slots) {
  for (unsigned rank = 0; rank < nodes.size(); ++rank) {
    if (rank == own_rank || window_.mapped(rank) != nullptr) continue;
    directories_[rank].entries.resize(nodes[rank]);
    directories_[rank].rounds.resize(nodes[rank] / kTogether + 1, kNoRound);
  }
}

std::span<ListedRecord> FarDirectories::piece_of(Directory& directory, NodeId node) const {
  const NodeId first = node / kTogether * kTogether;
  return std::span(directory.entries)
      .subspan(first)
      .first(std::min<std::size_t>(kTogether, directory.entries.size() - first));
}

const ListedRecord* FarDirectories::find(unsigned rank, NodeId node, std::uint64_t round) const {
  const Directory& directory = directories_[rank];
  return directory.rounds[node / kTogether] == round ? &directory.entries[node] : nullptr;
}

void FarDirectories::get_piece(unsigned rank, NodeId node, std::uint32_t slot, MPI_Request* request) {
  const std::size_t count = piece_of(directories_[rank], node).size();
  window_.get(rank, kOffset + node / kTogether * kTogether * sizeof(DirectoryEntry),
              std::as_writable_bytes(std::span(coming_[slot]).first(count)), request);
}

const ListedRecord& FarDirectories::take_piece(unsigned rank, NodeId node, std::uint64_t round, std::uint32_t slot) {
  Directory& directory = directories_[rank];
  const auto piece = piece_of(directory, node);
  std::copy_n(coming_[slot].begin(), piece.size(), piece.begin());
  directory.rounds[node / kTogether] = round;
  return directory.entries[node];
}

void FarDirectories::get(unsigned rank, NodeId node, ListedRecord& entry, MPI_Request* request) {
  window_.get(rank, kOffset + node * sizeof(DirectoryEntry), std::as_writable_bytes(std::span(&entry, 1)), request);
}

}  // namespace shoal
