// A RocksDB alone, tuned for this use: large values, no write-ahead log (rounds are synchronised as a whole), direct
// I/O, no compression, all memory in one block cache of the RAM number, batched reads.
#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_buffer_manager.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/engine_kinds.h"
#include "bench/generations.h"
#include "bench/step_buffers.h"
#include "bench/worker_threads.h"
#include "store/error.h"
#include "store/size_text.h"

namespace shoal::bench {
namespace {

void check(const rocksdb::Status& status, const char* what) {
  if (!status.ok()) throw Error(fmt::format("rocksdb engine: {}: {}", what, status.ToString()));
}

// The node, then 'a' or 'b' for the two generations of its public record, 'p' for the private one. Node first: nodes
// act in order, so a flushed file covers few nodes and compaction touches little else (with the kind first it wrote
// three times as much).
class Key {
 public:
  Key(char kind, NodeId node)
      : bytes_{static_cast<char>(node >> 24), static_cast<char>(node >> 16), static_cast<char>(node >> 8),
               static_cast<char>(node), kind} {}
  rocksdb::Slice slice() const { return {bytes_.data(), bytes_.size()}; }

 private:
  std::array<char, 5> bytes_;
};

rocksdb::Slice slice(const std::byte* data, std::size_t bytes) { return {reinterpret_cast<const char*>(data), bytes}; }
const std::byte* bytes_of(const rocksdb::PinnableSlice& value) {
  return reinterpret_cast<const std::byte*>(value.data());
}

rocksdb::Options tuned(std::uint64_t ram_bytes) {
  constexpr std::uint64_t kMiB = 1 << 20;
  rocksdb::Options options;
  options.create_if_missing = true;
  options.error_if_exists = true;
  options.compression = rocksdb::kNoCompression;
  options.use_direct_reads = true;
  options.use_direct_io_for_flush_and_compaction = true;
  options.max_background_jobs = 2;  // one flush, one compaction
  options.max_open_files = -1;
  options.allow_mmap_reads = false;

  // One number for block cache and memtables. Half the RAM number: the heap fragments under blocks of a record's size,
  // and compaction has buffers of its own; with all of it the process was killed in its cgroup. No loss, because rounds
  // touch everything and a cache of 1/16 hits next to nothing.
  rocksdb::LRUCacheOptions cache;
  cache.capacity = ram_bytes / 2;
  cache.num_shard_bits = 0;
  const auto block_cache = rocksdb::NewLRUCache(cache);
  options.write_buffer_manager = std::make_shared<rocksdb::WriteBufferManager>(cache.capacity / 2, block_cache);
  options.write_buffer_size = std::clamp(ram_bytes / 8, 4 * kMiB, 64 * kMiB);
  options.max_write_buffer_number = 3;
  options.level_compaction_dynamic_level_bytes = true;
  options.target_file_size_base = 64 * kMiB;
  // Every input file of a compaction has a buffer of this size: with RocksDB's usual 2 MiB and its usual limits on
  // level 0, a small RAM number was exceeded by 100 MiB and the process killed.
  options.compaction_readahead_size = kMiB / 2;
  options.writable_file_max_buffer_size = kMiB;
  options.level0_slowdown_writes_trigger = 8;
  options.level0_stop_writes_trigger = 12;

  rocksdb::BlockBasedTableOptions table;
  table.block_cache = block_cache;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

class RocksdbEngine final : public Engine {
 public:
  explicit RocksdbEngine(const EngineOptions& options)
      : threads_(options.threads),
        public_bytes_(options.layout.payload_bytes(Part::kPublic)),
        private_bytes_(options.layout.payload_bytes(Part::kPrivate)),
        options_(tuned(options.ram_bytes)),
        generations_(options.nodes) {
    rocksdb::DB* db = nullptr;
    check(rocksdb::DB::Open(options_, (options.directory / "db").string(), &db), "opening");
    db_.reset(db);
    for (unsigned i = 0; i < threads_; ++i) buffers_.emplace_back(options.layout, 0);
  }

  RoundFigures run_round(const std::shared_ptr<const AccessPlan>& round,
                         const std::shared_ptr<const AccessPlan>& /*next*/, const Work& work) override {
    RoundFigures figures;
    figures.operations = run_steps(
        *round, threads_, [&](unsigned thread, std::size_t step) { run_step(*round, step, work, buffers_[thread]); });
    generations_.end_round(*round);
    // Out of the memtables; compaction may go on behind the next round, in RocksDB's favour.
    check(db_->Flush(rocksdb::FlushOptions()), "flush");
    return figures;
  }

  bool supports(Verb verb) const override { return is_round(verb) || verb == Verb::kVerify; }
  void verify() override { check(db_->VerifyChecksum(), "verify"); }

  nlohmann::json facts() const override {
    return {{"settings", fmt::format("no WAL, direct I/O, no compression, block cache with memtables {}, level "
                                     "compaction, MultiGet",
                                     size_text(options_.write_buffer_manager->buffer_size() * 2))}};
  }

 private:
  Key published(NodeId node, unsigned generation) const { return {generation == 0 ? 'a' : 'b', node}; }

  void run_step(const AccessPlan& plan, std::size_t step, const Work& work, StepBuffers& memory) {
    const StepKind kind = plan.kind(step);
    const NodeId node = plan.node(step);
    const bool keeps = uses_private(kind) && private_bytes_ != 0;

    std::vector<Key> keys;
    for (const NodeId other : plan.reads(step)) keys.push_back(published(other, generations_.current(other)));
    if (reads_own(kind)) keys.push_back(published(node, generations_.current(node)));
    if (reads_own(kind) && keeps) keys.emplace_back('p', node);
    const std::vector<rocksdb::PinnableSlice> values = get(keys);

    memory.reads.clear();
    for (std::size_t k = 0; k < plan.reads(step).size(); ++k) memory.reads.push_back(bytes_of(values[k]));
    const std::size_t own = memory.reads.size();
    if (reads_own(kind) && keeps) std::memcpy(memory.private_state(), values[own + 1].data(), private_bytes_);
    work({kind, node, plan.reads(step), reads_own(kind) ? bytes_of(values[own]) : nullptr,
          writes(kind) ? memory.next() : nullptr, keeps ? memory.private_state() : nullptr, memory.reads});
    if (writes(kind)) {
      put(published(node, generations_.next(node)), slice(memory.next(), public_bytes_));
      if (keeps) put(Key('p', node), slice(memory.private_state(), private_bytes_));
    }
  }

  std::vector<rocksdb::PinnableSlice> get(const std::vector<Key>& keys) const {
    std::vector<rocksdb::Slice> slices;
    slices.reserve(keys.size());
    for (const Key& key : keys) slices.push_back(key.slice());
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<rocksdb::Status> statuses(keys.size());
    if (!keys.empty()) {
      db_->MultiGet(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), keys.size(), slices.data(), values.data(),
                    statuses.data());
    }
    for (const rocksdb::Status& status : statuses) check(status, "reading");
    return values;
  }

  void put(const Key& key, const rocksdb::Slice& value) {
    rocksdb::WriteOptions write;
    write.disableWAL = true;
    check(db_->Put(write, key.slice(), value), "writing");
  }

  unsigned threads_;
  std::size_t public_bytes_;
  std::size_t private_bytes_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DB> db_;
  Generations generations_;
  std::vector<StepBuffers> buffers_;
};

}  // namespace

std::unique_ptr<Engine> make_rocksdb_engine(const EngineOptions& options) {
  return std::make_unique<RocksdbEngine>(options);
}

}  // namespace shoal::bench
