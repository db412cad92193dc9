// The cold tier: RocksDB over byte-shuffled, compressed records (piece_codec.h), for nodes that will not act soon; and
// the run's metadata.
//
// A record's key is (epoch, part, node). Epochs only grow; whatever is of a later epoch than the last checkpoint knows
// is garbage after a crash, and goes in one range deletion. Records are cut into pieces of kPieceBytes, so that
// RocksDB's memory does not depend on the record size. Its block cache, memtables and buffers, and our own, are capped
// and charged to MemoryTag::kCold. Data bypasses the page cache.
// Best is a new epoch for each batch of some tens of MB: files of different epochs never overlap, so nothing is written
// twice, a read looks into one file, and a batch that is dead as a whole (erase_epochs) goes without any I/O.
// Thread-safe; readers run in parallel, writers of records one after the other, beside commits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/memory_budget.h"
#include "store/mode_report.h"
#include "store/types.h"

namespace shoal {

using Epoch = std::uint32_t;

enum class ColdAccess {
  kOpen,    // there must be a database
  kCreate,  // there must be none
  kRead,    // as kOpen, but nothing is changed, nothing may be written, and other readers may have it open as well
};

struct ColdOptions {
  std::filesystem::path directory;
  std::uint64_t memory_bytes = 16 << 20;  // all of RocksDB's memory and our scratch; at least kColdMinimumBytes
  ColdAccess access = ColdAccess::kOpen;
};

inline constexpr std::uint64_t kColdMinimumBytes = 8 << 20;

class ColdTier {
 public:
  static constexpr std::size_t kPieceBytes = 256 << 10;

  ColdTier(const ColdOptions& options, MemoryBudget& budget);
  ~ColdTier();
  ColdTier(const ColdTier&) = delete;
  ColdTier& operator=(const ColdTier&) = delete;

  // In bulk: `record_of(node)` is called for each node of `nodes` (ascending) and its bytes must stay valid until the
  // next call. Written as sorted files and ingested; durable on return.
  void ingest(Epoch epoch, Part part, std::span<const NodeId> nodes,
              const std::function<std::span<const std::byte>(NodeId)>& record_of);
  // One by one; durable only after flush(). Collected into sorted files, too, a new one whenever batch_bytes() are
  // together or a newer epoch begins.
  void put(Epoch epoch, Part part, NodeId node, std::span<const std::byte> record);
  void get(Epoch epoch, Part part, NodeId node, std::span<std::byte> record) const;  // Error when absent or damaged
  // Space returns bit by bit, in the background. A record may be read until flush().
  void erase(Epoch epoch, Part part, NodeId node, std::size_t record_bytes);
  void flush();
  // All records of these epochs; durable on return. Costs next to nothing when no file has records of others.
  void erase_epochs(Epoch first, Epoch last);
  void erase_epochs_after(Epoch epoch);

  // Metadata: a few small values, written atomically and durably together.
  void commit(std::span<const std::pair<std::string, std::string>> values);
  std::optional<std::string> value(std::string_view key) const;

  // Reads every block and checks RocksDB's own checksums; Error names the file.
  void verify() const;
  std::uint64_t disk_bytes() const;  // of the live sorted files
  // Since it was opened, compressed as files are, compactions included.
  std::uint64_t bytes_read() const;
  std::uint64_t bytes_written() const;
  std::size_t batch_bytes() const;  // of put(), after which a new epoch is best
  std::vector<ModeReport> modes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal
