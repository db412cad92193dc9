// RocksDB as the cold tier uses it: opened with care, written to by whole sorted files only.
//
// Two column families: the default one for values (the run's metadata), `cold` for records. Every write is a sorted
// file that the database takes over ("ingests"): atomic and durable when that returns, with no log to replay, and no
// memtable. Thread-safe, except that there must be one open SortedFile of each kind at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "store/cold_tier.h"
#include "store/mode_report.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
class Slice;
class SstFileWriter;
class Status;
struct Options;
struct ReadOptions;
}  // namespace rocksdb

namespace shoal {

// What the database has moved since it was opened: its files as they are, compressed, and compactions, which read and
// write them again.
struct ColdTraffic {
  std::atomic<std::uint64_t> bytes_read{0};
  std::atomic<std::uint64_t> bytes_written{0};
};

// Whether a file of this name may be a part of a cold tier, RocksDB's or ours.
bool is_cold_file(std::string_view name);

// Keys in ascending order. Nothing is there before ingest(), and an unfinished file goes away with its object.
class SortedFile {
 public:
  SortedFile(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, const rocksdb::Options& options,
             std::filesystem::path path, ColdTraffic& traffic);
  ~SortedFile();
  SortedFile(const SortedFile&) = delete;
  SortedFile& operator=(const SortedFile&) = delete;

  void put(const rocksdb::Slice& key, const rocksdb::Slice& value);
  void put_value(std::string_view name, std::string_view value);  // in pieces
  void erase(const rocksdb::Slice& key);
  void erase(const rocksdb::Slice& begin, const rocksdb::Slice& end);
  std::uint64_t bytes() const;

  void ingest();  // may be filled again, then; does nothing when empty

 private:
  void open();

  rocksdb::DB& db_;
  rocksdb::ColumnFamilyHandle* family_;
  std::filesystem::path path_;
  ColdTraffic& traffic_;
  std::unique_ptr<rocksdb::SstFileWriter> writer_;
  bool open_ = false;
};

class ColdDatabase {
 public:
  static constexpr std::uint64_t kFileBytes = 64 << 20;  // what compaction rewrites at a time
  static constexpr std::string_view kCommitNumber{};     // the name of a value that no user's value has

  // Error when there is one and there should not be, or the other way round; when another run has it (which a reader
  // does not notice); when it is behind its commit mark.
  explicit ColdDatabase(const ColdOptions& options);
  ~ColdDatabase();
  ColdDatabase(const ColdDatabase&) = delete;
  ColdDatabase& operator=(const ColdDatabase&) = delete;

  rocksdb::DB& db() const { return *db_; }
  rocksdb::ColumnFamilyHandle* records() const { return records_; }
  const std::filesystem::path& directory() const { return directory_; }
  const ModeReport& direct_io() const { return direct_io_; }
  ColdTraffic& traffic() const { return *traffic_; }

  void check(const rocksdb::Status& status, std::string_view doing) const;  // Error with RocksDB's text
  SortedFile new_records_file() const;
  SortedFile new_values_file() const;
  std::optional<std::string> value(std::string_view name) const;  // all of it from one commit
  std::uint64_t commit_number() const;

 private:
  void open(ColdAccess access);

  std::filesystem::path directory_;
  ModeReport direct_io_;
  std::unique_ptr<ColdTraffic> traffic_ = std::make_unique<ColdTraffic>();
  std::unique_ptr<rocksdb::Options> options_;
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::ColumnFamilyHandle* records_ = nullptr;
};

rocksdb::ReadOptions past_the_cache();

template <typename Integer>
std::uint8_t* append_big_endian(std::uint8_t* to, Integer value) {
  for (int shift = 8 * static_cast<int>(sizeof value) - 8; shift >= 0; shift -= 8) {
    *to++ = static_cast<std::uint8_t>(value >> shift);
  }
  return to;
}

}  // namespace shoal
