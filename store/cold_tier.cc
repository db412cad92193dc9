#include "store/cold_tier.h"

#include <fmt/format.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <set>

#include "store/cold_database.h"
#include "store/commit_mark.h"
#include "store/error.h"
#include "store/piece_codec.h"
#include "store/size_text.h"

namespace shoal {
namespace {

constexpr std::size_t kWorthAFile = 256;   // erased pieces that are written along with records
constexpr std::size_t kMostErased = 4096;  // erased pieces that are written in any case

rocksdb::Slice slice(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::span<const std::byte> bytes_of(const rocksdb::Slice& slice) {
  return std::as_bytes(std::span(slice.data(), slice.size()));
}

// epoch, part, node, piece: in this order, so that an epoch is one range, and its public records are a part of that.
class RecordKey {
 public:
  RecordKey(Epoch epoch, Part part, NodeId node, std::size_t piece) {
    std::uint8_t* to = append_big_endian(bytes_.data(), epoch);
    *to++ = static_cast<std::uint8_t>(part);
    to = append_big_endian(to, node);
    append_big_endian(to, static_cast<std::uint16_t>(piece));
  }
  Epoch epoch() const {
    Epoch epoch = 0;
    for (std::size_t i = 0; i < sizeof epoch; ++i) epoch = epoch << 8 | bytes_[i];
    return epoch;
  }
  operator rocksdb::Slice() const { return slice(std::as_bytes(std::span(bytes_))); }
  friend auto operator<=>(const RecordKey&, const RecordKey&) = default;  // RocksDB's order, too

 private:
  std::array<std::uint8_t, 11> bytes_;
};

std::size_t pieces_of(std::size_t record_bytes) {
  const std::size_t pieces = (record_bytes + ColdTier::kPieceBytes - 1) / ColdTier::kPieceBytes;
  SHOAL_CHECK(pieces <= std::numeric_limits<std::uint16_t>::max());
  return pieces;
}

template <typename Byte>
std::span<Byte> piece_of(std::span<Byte> record, std::size_t piece) {
  const std::size_t offset = piece * ColdTier::kPieceBytes;
  return record.subspan(offset, std::min(ColdTier::kPieceBytes, record.size() - offset));
}

}  // namespace

struct ColdTier::Impl {
  Impl(const ColdOptions& options, MemoryBudget& budget)
      : charge(budget.charge(MemoryTag::kCold, options.memory_bytes)),
        database(options),
        pending_bytes(options.access == ColdAccess::kRead ? 0 : options.memory_bytes / 4),
        commit(database.commit_number()),
        mark(read_commit_mark(database.directory())) {}

  // With `writing` held: all of `pending`, and of `erased` if it has so many.
  void write_out(std::size_t least_erased);
  // Nothing when the piece is not pending.
  std::optional<bool> decode_pending(const RecordKey& key, PieceDecoder& decoder, std::span<std::byte> piece) const;
  std::unique_ptr<PieceDecoder> take_decoder() const;
  void give_back(std::unique_ptr<PieceDecoder> decoder) const;

  MemoryCharge charge;
  ColdDatabase database;

  // `writing` is held for as long as a file takes; `changing` only while the two collections change or are looked at.
  // What is in both was erased after it was put.
  std::mutex writing;
  PieceEncoder encoder{kPieceBytes};
  Epoch newest_put = 0;
  std::vector<std::byte> pending_bytes;
  std::size_t pending_used = 0;
  mutable std::mutex changing;
  std::map<RecordKey, std::span<const std::byte>> pending;  // put, and not in the database yet
  std::set<RecordKey> erased;                               // and still in the database

  // For commits.
  std::mutex committing;
  std::uint64_t commit;
  std::uint64_t mark;

  // For readers: as many decoders as have been reading at once.
  mutable std::mutex borrowing;
  mutable std::vector<std::unique_ptr<PieceDecoder>> decoders;
};

void ColdTier::Impl::write_out(std::size_t least_erased) {
  {
    SortedFile file = database.new_records_file();
    std::optional<Epoch> epoch;
    for (const auto& [key, encoded] : pending) {
      if (epoch != key.epoch()) file.ingest();
      epoch = key.epoch();
      file.put(key, slice(encoded));
    }
    file.ingest();
  }
  std::set<RecordKey> gone;
  {
    const std::scoped_lock lock(changing);  // only now: a reader finds a record here or in the database
    pending.clear();
    pending_used = 0;
    if (erased.size() >= least_erased) gone.swap(erased);
  }
  SortedFile file = database.new_records_file();
  for (const RecordKey& key : gone) file.erase(key);
  file.ingest();
}

std::optional<bool> ColdTier::Impl::decode_pending(const RecordKey& key, PieceDecoder& decoder,
                                                   std::span<std::byte> piece) const {
  const std::scoped_lock lock(changing);
  const auto found = pending.find(key);
  if (found == pending.end()) return std::nullopt;
  return decoder.decode(found->second, piece);
}

std::unique_ptr<PieceDecoder> ColdTier::Impl::take_decoder() const {
  const std::scoped_lock lock(borrowing);
  if (decoders.empty()) return std::make_unique<PieceDecoder>(kPieceBytes);
  std::unique_ptr<PieceDecoder> decoder = std::move(decoders.back());
  decoders.pop_back();
  return decoder;
}

void ColdTier::Impl::give_back(std::unique_ptr<PieceDecoder> decoder) const {
  const std::scoped_lock lock(borrowing);
  decoders.push_back(std::move(decoder));
}

ColdTier::ColdTier(const ColdOptions& options, MemoryBudget& budget) {
  if (options.memory_bytes < kColdMinimumBytes) {
    throw Error(fmt::format("the cold tier needs at least {} of RAM, and was given {}", size_text(kColdMinimumBytes),
                            size_text(options.memory_bytes)),
                ExitCode::kUsage);
  }
  impl_ = std::make_unique<Impl>(options, budget);
}

ColdTier::~ColdTier() = default;

void ColdTier::ingest(Epoch epoch, Part part, std::span<const NodeId> nodes,
                      const std::function<std::span<const std::byte>(NodeId)>& record_of) {
  const std::scoped_lock lock(impl_->writing);
  impl_->write_out(kWorthAFile);
  SortedFile file = impl_->database.new_records_file();
  for (NodeId node : nodes) {
    if (file.bytes() >= ColdDatabase::kFileBytes) file.ingest();
    const std::span<const std::byte> record = record_of(node);
    for (std::size_t piece = 0; piece < pieces_of(record.size()); ++piece) {
      const RecordKey key(epoch, part, node, piece);
      file.put(key, slice(impl_->encoder.encode(piece_of(record, piece))));
      const std::scoped_lock change(impl_->changing);
      impl_->erased.erase(key);
    }
  }
  file.ingest();
}

void ColdTier::put(Epoch epoch, Part part, NodeId node, std::span<const std::byte> record) {
  const std::scoped_lock lock(impl_->writing);
  // A newer epoch starts a new file. (Not just another one: the caller may take turns between a few.)
  if (epoch > impl_->newest_put) impl_->write_out(kWorthAFile);
  impl_->newest_put = std::max(impl_->newest_put, epoch);
  for (std::size_t piece = 0; piece < pieces_of(record.size()); ++piece) {
    const RecordKey key(epoch, part, node, piece);
    const std::span<const std::byte> encoded = impl_->encoder.encode(piece_of(record, piece));
    if (encoded.size() > impl_->pending_bytes.size() - impl_->pending_used) impl_->write_out(kWorthAFile);
    const std::span<std::byte> place = std::span(impl_->pending_bytes).subspan(impl_->pending_used, encoded.size());
    std::ranges::copy(encoded, place.begin());
    impl_->pending_used += encoded.size();
    const std::scoped_lock change(impl_->changing);
    impl_->pending.insert_or_assign(key, place);
    impl_->erased.erase(key);
  }
}

void ColdTier::get(Epoch epoch, Part part, NodeId node, std::span<std::byte> record) const {
  const auto fail = [&](std::string_view why) {
    throw Error(fmt::format("cold tier {}: the {} record of node {} (epoch {}): {}",
                            impl_->database.directory().string(), name(part), node, epoch, why));
  };
  std::unique_ptr<PieceDecoder> decoder = impl_->take_decoder();
  rocksdb::PinnableSlice encoded;
  for (std::size_t piece = 0; piece < pieces_of(record.size()); ++piece) {
    const RecordKey key(epoch, part, node, piece);
    std::optional<bool> good = impl_->decode_pending(key, *decoder, piece_of(record, piece));
    if (!good) {
      encoded.Reset();
      const rocksdb::Status status =
          impl_->database.db().Get(past_the_cache(), impl_->database.records(), key, &encoded);
      if (status.IsNotFound()) fail("it is not there");
      if (!status.ok()) fail(status.ToString());
      impl_->database.traffic().bytes_read += encoded.size();
      good = decoder->decode(bytes_of(encoded), piece_of(record, piece));
    }
    if (!*good) fail(fmt::format("it is not a record of {} bytes", record.size()));
  }
  impl_->give_back(std::move(decoder));
}

void ColdTier::erase(Epoch epoch, Part part, NodeId node, std::size_t record_bytes) {
  {
    const std::scoped_lock lock(impl_->changing);
    for (std::size_t piece = 0; piece < pieces_of(record_bytes); ++piece) {
      impl_->erased.emplace(epoch, part, node, piece);
    }
    if (impl_->erased.size() < kMostErased) return;
  }
  flush();
}

void ColdTier::flush() {
  const std::scoped_lock lock(impl_->writing);
  impl_->write_out(1);
}

void ColdTier::erase_epochs(Epoch first, Epoch last) {
  const std::string doing = fmt::format("erasing epochs {} to {}", first, last);
  const std::scoped_lock lock(impl_->writing);
  impl_->write_out(kWorthAFile);
  const RecordKey begin_key(first, Part::kPublic, 0, 0);
  const RecordKey end_key(last + 1, Part::kPublic, 0, 0);
  const std::string past_all(16, '\xff');
  const rocksdb::Slice begin = begin_key;
  const rocksdb::Slice end = last == std::numeric_limits<Epoch>::max() ? rocksdb::Slice(past_all) : end_key;
  const rocksdb::RangePtr range(&begin, &end);
  const ColdDatabase& database = impl_->database;
  database.check(rocksdb::DeleteFilesInRanges(&database.db(), database.records(), &range, 1, /*include_end=*/false),
                 doing);

  // What shares a file with other epochs is still there.
  const std::unique_ptr<rocksdb::Iterator> left(database.db().NewIterator(past_the_cache(), database.records()));
  left->Seek(begin);
  database.check(left->status(), doing);
  if (!left->Valid() || left->key().compare(end) >= 0) return;
  SortedFile file = database.new_records_file();
  file.erase(begin, end);
  file.ingest();
}

void ColdTier::erase_epochs_after(Epoch epoch) {
  constexpr Epoch kLast = std::numeric_limits<Epoch>::max();
  if (epoch < kLast) erase_epochs(epoch + 1, kLast);
}

void ColdTier::commit(std::span<const std::pair<std::string, std::string>> values) {
  std::vector<const std::pair<std::string, std::string>*> sorted;
  for (const auto& value : values) sorted.push_back(&value);
  std::ranges::sort(sorted, {}, [](const auto* value) { return std::string_view(value->first); });

  const std::scoped_lock lock(impl_->committing);
  const auto catch_up = [&] {
    if (impl_->mark != impl_->commit) write_commit_mark(impl_->database.directory(), impl_->commit);
    impl_->mark = impl_->commit;
  };
  catch_up();  // a crash or a full disk may have come between; the mark is never two behind
  SortedFile file = impl_->database.new_values_file();
  file.put_value(ColdDatabase::kCommitNumber, std::to_string(impl_->commit + 1));
  for (const auto* value : sorted) {
    SHOAL_CHECK(!value->first.empty() && value->first.find('\0') == std::string::npos);
    file.put_value(value->first, value->second);
  }
  file.ingest();
  ++impl_->commit;
  catch_up();
}

std::optional<std::string> ColdTier::value(std::string_view key) const { return impl_->database.value(key); }

void ColdTier::verify() const {
  impl_->database.check(impl_->database.db().VerifyChecksum(past_the_cache()), "verifying");
}

std::uint64_t ColdTier::disk_bytes() const {
  std::uint64_t bytes = 0;
  SHOAL_CHECK(impl_->database.db().GetAggregatedIntProperty(rocksdb::DB::Properties::kLiveSstFilesSize, &bytes));
  return bytes;
}

std::uint64_t ColdTier::bytes_read() const { return impl_->database.traffic().bytes_read; }

std::uint64_t ColdTier::bytes_written() const { return impl_->database.traffic().bytes_written; }

std::size_t ColdTier::batch_bytes() const { return impl_->pending_bytes.size(); }

std::vector<ModeReport> ColdTier::modes() const { return {impl_->database.direct_io()}; }

}  // namespace shoal
