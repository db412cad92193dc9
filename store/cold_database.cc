#include "store/cold_database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/snapshot.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>
#include <vector>

#include "store/commit_mark.h"
#include "store/error.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecordsFamily = "cold";
constexpr std::size_t kValuePieceBytes = 64 << 10;

// RocksDB does not take these for files of its own, and leaves them alone.
constexpr const char* kIncomingRecords = "incoming-records";
constexpr const char* kIncomingValues = "incoming-values";
constexpr const char* kProbe = "probe";

void check_status(const rocksdb::Status& status, const fs::path& path, std::string_view doing) {
  if (status.ok()) return;
  throw Error(fmt::format("cold tier {}: {}: {}{}", path.string(), doing, status.ToString(),
                          status.IsNoSpace() ? "; free some space and resume from the last checkpoint" : ""));
}

void remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) throw_errno(fmt::format("removing {}", path.string()), error.value());
}

// RocksDB's own log tells nothing that a status does not, and grows.
class NoLog : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

class CompactionCount : public rocksdb::EventListener {
 public:
  explicit CompactionCount(ColdTraffic& traffic) : traffic_(traffic) {}
  void OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo& job) override {
    traffic_.bytes_read += job.stats.total_input_bytes;
    traffic_.bytes_written += job.stats.total_output_bytes;
  }

 private:
  ColdTraffic& traffic_;
};

// Asks the file system, since RocksDB only fails when it opens the database. A reader asks with a file that is there.
ModeReport probe_direct_io(const fs::path& directory, ColdAccess access) {
  ModeReport report{"cold tier I/O", "direct", "direct", ""};
  const bool read = access == ColdAccess::kRead;
  const fs::path path = directory / (read ? "CURRENT" : kProbe);
  const int flags = read ? O_RDONLY : O_CREAT | O_RDWR;
  const int file = ::open(path.c_str(), flags | O_DIRECT | O_CLOEXEC, 0644);
  if (file < 0) {
    if (errno != EINVAL) throw_errno(fmt::format("opening {}", path.string()), errno);
    report.actual = "buffered";
    report.reason = fmt::format("O_DIRECT is refused in {}: {}", directory.string(), errno_text(errno));
  } else {
    ::close(file);
  }
  if (!read) remove_file(path);
  return report;
}

rocksdb::Options tuned(const ColdOptions& cold, bool direct) {
  const std::uint64_t memory = cold.memory_bytes;
  rocksdb::BlockBasedTableOptions table;
  // A piece fills a block of its own; only the zero pieces, which are empty, share one.
  table.block_size = 4096;
  // Index and filter in pages that go through the cache, so that memory does not grow with the population.
  table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.partition_filters = true;
  table.cache_index_and_filter_blocks = true;
  table.pin_top_level_index_and_filter = false;
  // Not strict: a cache full of pinned blocks would make reads fail. Little but index and filter pages gets in.
  table.block_cache = rocksdb::NewLRUCache(memory / 8, /*num_shard_bits=*/0, /*strict_capacity_limit=*/false);
  table.max_auto_readahead_size = 0;

  rocksdb::Options options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.compression = rocksdb::kNoCompression;  // piece_codec.h does it
  options.optimize_filters_for_hits = true;       // what is asked for is there

  options.write_buffer_size = 64 << 10;  // never used: all writes are ingested
  options.writable_file_max_buffer_size = 256 << 10;
  options.compaction_readahead_size = 64 << 10;
  options.max_background_jobs = 2;  // a compaction, and flushes, of which there are none
  options.max_subcompactions = 1;
  options.max_open_files = static_cast<int>(std::min<std::uint64_t>(memory / (32 << 10), 512));  // 4 KB each
  options.table_cache_numshardbits = 0;
  options.max_file_opening_threads = 1;
  options.use_direct_reads = direct;
  options.use_direct_io_for_flush_and_compaction = direct;

  // RocksDB counts an erasure as twice the size of a record, so levels with many of them are compacted, and space
  // returns. Measured: at most a third of the tier is dead, and erasing in random order writes each byte once more.
  options.level_compaction_dynamic_level_bytes = true;
  options.max_bytes_for_level_base = ColdDatabase::kFileBytes;
  options.max_bytes_for_level_multiplier = 4;
  options.level0_file_num_compaction_trigger = 4;
  options.level0_slowdown_writes_trigger = 8;  // a compaction's memory grows with the files of level 0
  options.level0_stop_writes_trigger = 8;
  options.target_file_size_base = ColdDatabase::kFileBytes;

  // Nothing goes through the write-ahead log either. Should there be one with something in it, damage is an error.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kAbsoluteConsistency;
  options.avoid_flush_during_shutdown = true;
  options.max_bgerror_resume_count = 0;
  options.info_log = std::make_shared<NoLog>();
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.create_if_missing = cold.access == ColdAccess::kCreate;
  options.error_if_exists = cold.access == ColdAccess::kCreate;
  options.create_missing_column_families = true;
  return options;
}

// RocksDB's own lock, held while we look at a database that is not open yet.
class DirectoryLock {
 public:
  explicit DirectoryLock(const fs::path& directory) {
    const rocksdb::Status status = rocksdb::Env::Default()->LockFile(directory / "LOCK", &lock_);
    if (status.ok()) return;
    throw Error(fmt::format("the cold tier in {} is in use by another run: {}", directory.string(), status.ToString()));
  }
  ~DirectoryLock() { rocksdb::Env::Default()->UnlockFile(lock_).PermitUncheckedError(); }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  rocksdb::FileLock* lock_ = nullptr;
};

std::string value_key(std::string_view name, std::size_t piece) {
  std::array<std::uint8_t, 2> number;
  append_big_endian(number.data(), static_cast<std::uint16_t>(piece));
  std::string key(name);
  key.push_back('\0');
  key.append(number.begin(), number.end());
  return key;
}

std::optional<std::string> read_value(rocksdb::DB& db, const fs::path& directory, std::string_view name) {
  rocksdb::ManagedSnapshot one_commit(&db);
  rocksdb::ReadOptions options = past_the_cache();
  options.snapshot = one_commit.snapshot();
  rocksdb::PinnableSlice part;
  const auto get = [&](std::size_t piece) {
    part.Reset();
    return db.Get(options, db.DefaultColumnFamily(), value_key(name, piece), &part);
  };
  const std::string doing = fmt::format("reading the value '{}'", name);
  const rocksdb::Status status = get(0);
  if (status.IsNotFound()) return std::nullopt;
  check_status(status, directory, doing);
  std::uint64_t size = 0;
  for (char byte : part.ToStringView()) size = size << 8 | static_cast<unsigned char>(byte);
  std::string value;
  value.reserve(size);
  for (std::size_t piece = 1; value.size() < size; ++piece) {
    check_status(get(piece), directory, doing);
    value.append(part.data(), part.size());
  }
  return value;
}

std::uint64_t read_commit_number(rocksdb::DB& db, const fs::path& directory) {
  const std::optional<std::string> text = read_value(db, directory, ColdDatabase::kCommitNumber);
  return text ? std::stoull(*text) : 0;
}

// Opening a database removes the files it does not know of, so one that a damaged MANIFEST has rolled back is noticed
// before. And so is one that another run has open.
void look_before_opening(const fs::path& directory, const rocksdb::Options& options, ColdAccess access) {
  std::optional<DirectoryLock> lock;
  if (access != ColdAccess::kRead) {
    lock.emplace(directory);
    remove_file(directory / kIncomingRecords);
    remove_file(directory / kIncomingValues);
  }
  if (access == ColdAccess::kCreate) {
    remove_file(commit_mark_path(directory));
    return;
  }
  rocksdb::DB* raw = nullptr;
  check_status(rocksdb::DB::OpenForReadOnly(options, directory, &raw), directory, "opening");
  const std::unique_ptr<rocksdb::DB> db(raw);
  require_commit(directory, read_commit_number(*db, directory), read_commit_mark(directory));
}

void require_presence(const ColdOptions& options) {
  const bool create = options.access == ColdAccess::kCreate;
  std::error_code error;
  if (create) fs::create_directories(options.directory, error);
  const bool exists = !error && fs::exists(options.directory / "CURRENT", error);
  if (error) throw_errno(fmt::format("cold tier {}", options.directory.string()), error.value());
  if (create && exists) {
    throw Error(fmt::format("{} holds a database already; choose another directory", options.directory.string()));
  }
  if (!create && !exists) {
    throw Error(fmt::format("there is no database in {}", options.directory.string()));
  }
}

// What is between them is a number: "000012.sst", "MANIFEST-000005".
bool is_numbered(std::string_view name, std::string_view before, std::string_view after) {
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after)) return false;
  name.remove_prefix(before.size());
  name.remove_suffix(after.size());
  return name.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

bool is_cold_file(std::string_view name) {
  const std::string mark = commit_mark_path({}).string();
  if (name == mark || name == mark + ".new") return true;
  for (const char* const whole : {"CURRENT", "IDENTITY", "LOCK", "LOG", kIncomingRecords, kIncomingValues, kProbe}) {
    if (name == whole) return true;
  }
  constexpr std::pair<std::string_view, std::string_view> kNumbered[] = {
      {"", ".sst"},      {"", ".log"},     {"", ".dbtmp"},         {"", ".blob"},
      {"MANIFEST-", ""}, {"OPTIONS-", ""}, {"OPTIONS-", ".dbtmp"}, {"LOG.old.", ""}};
  return std::any_of(std::begin(kNumbered), std::end(kNumbered),
                     [&](const auto& around) { return is_numbered(name, around.first, around.second); });
}

rocksdb::ReadOptions past_the_cache() {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  return options;
}

SortedFile::SortedFile(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, const rocksdb::Options& options,
                       std::filesystem::path path, ColdTraffic& traffic)
    : db_(db), family_(family), path_(std::move(path)), traffic_(traffic) {
  rocksdb::EnvOptions env_options(options);
  env_options.use_direct_writes = options.use_direct_io_for_flush_and_compaction;
  writer_ = std::make_unique<rocksdb::SstFileWriter>(env_options, options, family);
}

SortedFile::~SortedFile() {
  std::error_code gone_already;
  fs::remove(path_, gone_already);
}

void SortedFile::open() {
  if (open_) return;
  // What is left there may be the second name of a file that the database has taken over: never write to it.
  remove_file(path_);
  check_status(writer_->Open(path_), path_, "creating");
  open_ = true;
}

void SortedFile::put(const rocksdb::Slice& key, const rocksdb::Slice& value) {
  open();
  check_status(writer_->Put(key, value), path_, "writing");
}

// The size under piece 0, the bytes under the pieces from 1 on. The last pieces of a longer value that was there before
// may follow; they are not read.
void SortedFile::put_value(std::string_view name, std::string_view value) {
  std::array<std::uint8_t, 8> size;
  append_big_endian(size.data(), std::uint64_t{value.size()});
  put(value_key(name, 0), {reinterpret_cast<const char*>(size.data()), size.size()});
  for (std::size_t piece = 1; !value.empty(); ++piece) {
    SHOAL_CHECK(piece <= std::numeric_limits<std::uint16_t>::max());
    const std::string_view part = value.substr(0, kValuePieceBytes);
    put(value_key(name, piece), {part.data(), part.size()});
    value.remove_prefix(part.size());
  }
}

void SortedFile::erase(const rocksdb::Slice& key) {
  open();
  check_status(writer_->Delete(key), path_, "writing");
}

void SortedFile::erase(const rocksdb::Slice& begin, const rocksdb::Slice& end) {
  open();
  check_status(writer_->DeleteRange(begin, end), path_, "writing");
}

std::uint64_t SortedFile::bytes() const { return open_ ? writer_->FileSize() : 0; }

void SortedFile::ingest() {
  if (!open_) return;
  open_ = false;
  check_status(writer_->Finish(), path_, "writing");
  traffic_.bytes_written += writer_->FileSize();
  // An empty write waits while RocksDB holds writers back (too many files in level 0); an ingestion alone would not.
  rocksdb::WriteOptions no_log;
  no_log.disableWAL = true;
  rocksdb::WriteBatch nothing;
  check_status(db_.Write(no_log, &nothing), path_, "waiting for compaction");
  rocksdb::IngestExternalFileOptions options;
  options.move_files = true;
  options.failed_move_fall_back_to_copy = false;
  options.write_global_seqno = false;  // it is in the MANIFEST; a file never changes
  check_status(db_.IngestExternalFile(family_, {path_}, options), path_, "ingesting");
}

ColdDatabase::ColdDatabase(const ColdOptions& options) : directory_(options.directory) {
  require_presence(options);
  direct_io_ = probe_direct_io(directory_, options.access);
  options_ = std::make_unique<rocksdb::Options>(tuned(options, !direct_io_.degraded()));
  look_before_opening(directory_, *options_, options.access);
  options_->listeners.push_back(std::make_shared<CompactionCount>(*traffic_));
  open(options.access);
}

void ColdDatabase::open(ColdAccess access) {
  const std::vector<rocksdb::ColumnFamilyDescriptor> wanted = {{rocksdb::kDefaultColumnFamilyName, *options_},
                                                               {kRecordsFamily, *options_}};
  std::vector<rocksdb::ColumnFamilyHandle*> families;
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status status = access == ColdAccess::kRead
                                     ? rocksdb::DB::OpenForReadOnly(*options_, directory_, wanted, &families, &raw)
                                     : rocksdb::DB::Open(*options_, directory_, wanted, &families, &raw);
  check(status, "opening");
  db_.reset(raw);
  db_->DestroyColumnFamilyHandle(families[0]);
  records_ = families[1];
}

ColdDatabase::~ColdDatabase() {
  if (records_ != nullptr) db_->DestroyColumnFamilyHandle(records_);
}

void ColdDatabase::check(const rocksdb::Status& status, std::string_view doing) const {
  check_status(status, directory_, doing);
}

SortedFile ColdDatabase::new_records_file() const {
  return SortedFile(*db_, records_, *options_, directory_ / kIncomingRecords, *traffic_);
}

SortedFile ColdDatabase::new_values_file() const {
  return SortedFile(*db_, db_->DefaultColumnFamily(), *options_, directory_ / kIncomingValues, *traffic_);
}

std::optional<std::string> ColdDatabase::value(std::string_view name) const {
  return read_value(*db_, directory_, name);
}

std::uint64_t ColdDatabase::commit_number() const { return read_commit_number(*db_, directory_); }

}  // namespace shoal
