#include "store/slot_table.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "store/error.h"

namespace shoal {
namespace {

struct Header {
  char magic[8] = {'S', 'H', 'O', 'A', 'L', 'T', 'B', 'L'};
  std::uint32_t format = 2;
  std::uint32_t nodes = 0;
  std::uint64_t store_id = 0;
};

}  // namespace

std::uint64_t SlotTable::bytes_for(NodeId nodes) {
  return round_up(kBlockBytes + nodes * (sizeof(SlotEntry) + sizeof(PendingEntry)), kBlockBytes);
}

SlotTable::SlotTable(const std::filesystem::path& path, NodeId nodes, std::uint64_t store_id)
    : nodes_(nodes), mapped_bytes_(bytes_for(nodes)) {
  int fd = -1;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  if (!path.empty()) {
    fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) throw_errno(fmt::format("creating {}", path.string()), errno);
    // Blocks now rather than a SIGBUS later on a full disk.
    if (const int error = ::posix_fallocate(fd, 0, static_cast<off_t>(mapped_bytes_)); error != 0) {
      ::close(fd);
      throw_errno(fmt::format("allocating {} bytes for {}", mapped_bytes_, path.string()), error);
    }
    flags = MAP_SHARED;
  }
  mapping_ = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, flags, fd, 0);
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (mapping_ == MAP_FAILED) throw_errno(fmt::format("mapping {}", path.string()), error);

  Header header;
  header.nodes = nodes;
  header.store_id = store_id;
  std::memcpy(mapping_, &header, sizeof(header));
  auto* base = static_cast<std::byte*>(mapping_);
  entries_ = reinterpret_cast<SlotEntry*>(base + kBlockBytes);
  pending_ = reinterpret_cast<PendingEntry*>(base + kBlockBytes + nodes * sizeof(SlotEntry));
  std::fill_n(entries_, nodes, SlotEntry{});
  std::fill_n(pending_, nodes, PendingEntry{});
}

SlotTable::~SlotTable() { ::munmap(mapping_, mapped_bytes_); }

void SlotTable::flip(NodeId node) {
  SlotEntry& entry = entries_[node];
  PendingEntry& pending = pending_[node];
  entry.version = pending.version != 0 ? pending.version : entry.version + 1;
  entry.location[index(Part::kPublic)] = pending.location;
  pending = {0, Location::nowhere().word(), 1 - pending.side};
}

}  // namespace shoal
