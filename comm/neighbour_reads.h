// Public records from other ranks' stores, and the answers to their questions: what PeerLink is for the engine.
//
// A record that the directory of its owner lists is read without the owner's help: through the shared mapping on one
// host (on the engine's own thread: it is a copy), else with MPI_Rget, by the communication thread; the worker that
// uses such a record first looks at its checksum. Entries of directories far away come many at a time. One that is
// marked to stay is good for the round, and its record takes one get and nothing else; any other is looked at again
// when the record has come. Everything else is asked for: the owner's engine brings the record
// into a frame of its serving share and says where, the record is read from there, and the frame released. All records
// come into a frame that the reader's engine has set aside before, so releasing one never waits for anything.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "comm/arena_window.h"
#include "comm/comm_thread.h"
#include "comm/communicator.h"
#include "comm/far_directories.h"
#include "comm/rank_messages.h"
#include "store/peer_link.h"
#include "store/state_layout.h"

namespace shoal {

struct NeighbourFigures {
  std::uint64_t shared_bytes = 0;     // through the mapping of a rank of this host
  std::uint64_t one_sided_bytes = 0;  // with MPI_Rget, from where the directory said
  std::uint64_t requested_bytes = 0;  // from a frame that the owner filled for it
  std::uint64_t torn = 0;             // reads that found the record changed, and were made again
  // Versions that a record was behind the reader, where any version will do.
  std::uint64_t lag_sum = 0;
  std::uint64_t lag_most = 0;
  std::uint64_t lag_count = 0;

  std::uint64_t bytes() const { return shared_bytes + one_sided_bytes + requested_bytes; }
  void add(const NeighbourFigures& other);
};

class NeighbourReads final : public PeerLink, public CommService {
 public:
  struct Guest {
    unsigned owner = 0;     // rank
    NodeId node = kNoNode;  // there
  };
  struct Setup {
    std::vector<Guest> guests;
    std::vector<NodeId> nodes;  // of every rank
    StateLayout layout;
    std::uint64_t most_bytes = std::uint64_t{1} << 30;  // of a record that one MPI_Rget reads: MPI counts in int
  };
  // What the window has before the arena: how far the rank is, and the directory.
  static std::uint64_t head_bytes(NodeId nodes);

  NeighbourReads(Communicator& ranks, ArenaWindow& window, Setup setup);
  ~NeighbourReads() override;

  std::span<DirectoryEntry> directory() const;
  std::span<std::byte> arena() const;
  // Collective, once: the ranks' stores are there.
  void connect(std::uint64_t store_id);

  // Between rounds: the version of every guest that the next round reads; one for all, or kAnyVersion.
  void expect(std::vector<Version> versions) { versions_ = std::move(versions); }
  void expect_any(Version own) {
    versions_.clear();
    own_version_ = own;
  }
  NeighbourFigures take_figures();  // since the last call; between rounds

  // Without rounds in step: how many this rank has done, and how many the slowest of the others has.
  void announce(std::uint64_t rounds);
  std::uint64_t slowest();

  // With the others' directories, which stay mapped, or here as far as they are known.
  static std::uint64_t bytes_for(NodeId guests, std::uint64_t others) {
    return guests * (sizeof(Guest) + sizeof(Version)) + FarDirectories::bytes_for(others, kMostReadings);
  }

  bool fetch(std::uint32_t frame, NodeId guest, std::uint64_t round, std::byte* record) override;
  const std::byte* in_place(NodeId guest, std::uint64_t round, bool first) override;
  void out_of_place(NodeId guest, const std::byte* record) override;
  void serve(const ServeRequest& request, std::uint32_t place, Version version, std::uint64_t offset) override;
  bool has_news() override;
  void collect(News& news) override;
  void verify(NodeId guest, const std::byte* record) const override;
  void set_wake(std::function<void()> wake) override;

  bool poll() override;
  bool expecting() const override { return active_ > 0 || messages_->sending(); }

 private:
  // A record on its way here.
  struct Reading {
    enum class Stage { kEntry, kRecord, kEntryAgain, kAsked, kServed };
    Stage stage = Stage::kEntry;
    std::uint32_t frame = 0;
    NodeId guest = kNoNode;
    std::uint64_t round = 0;
    std::byte* record = nullptr;
    std::uint64_t offset = 0;  // of the record in its owner's window
    std::uint64_t bytes = 0;   // of it that are there or on their way
    Version version = 0;       // that is read
    std::uint64_t place = 0;
    unsigned tries = 0;
    ListedRecord entry;
    ListedRecord again;  // after the record
  };
  struct Answer {
    unsigned rank = 0;
    RankMessage message;
  };

  bool wanted(NodeId guest, Version version) const;
  const DirectoryEntry* mapped_entry(const Guest& guest) const;
  bool read_mapped(NodeId guest, std::byte* record);
  void note_lag(Version version);
  bool move();
  bool told_long_ago() const;
  void tell();
  void begin(std::uint32_t slot);
  bool stays(const Reading& reading, const ListedRecord& entry) const;
  void listed(std::uint32_t slot);
  void get_record(std::uint32_t slot, std::uint64_t offset);
  void get_piece(std::uint32_t slot);
  void ask(std::uint32_t slot);
  void follow(std::uint32_t slot);
  void got(std::uint32_t slot);
  void release(const Reading& reading);
  void arrived(std::uint32_t slot);
  void hear(unsigned from, const RankMessage& message);
  void served(const RankMessage& message);
  std::uint64_t arena_offset(unsigned rank) const { return head_bytes(setup_.nodes[rank]); }

  static constexpr std::uint32_t kMostReadings = 32;
  // The engine is told of arrivals when so few are left that it should ask for others meanwhile, and, so that no step
  // waits for long, after that time. To wake a thread takes 17 us here, and a core from a worker; a record of LeNet-5
  // takes 9 us through shared memory and 60 over TCP.
  static constexpr std::size_t kLeftWhenTold = 8;
  static constexpr std::chrono::milliseconds kToldAfter{1};

  Communicator& ranks_;
  ArenaWindow& window_;
  const Setup setup_;
  const std::uint64_t record_bytes_;
  std::vector<std::uint64_t> store_ids_;
  std::vector<Version> versions_;  // by guest; empty: any will do
  Version own_version_ = 0;

  // Communication thread.
  FarDirectories directories_;
  std::unique_ptr<RankMessages> messages_;
  std::vector<Reading> readings_;
  std::vector<MPI_Request> requests_;  // by slot
  std::vector<std::uint32_t> free_readings_;
  std::uint32_t active_ = 0;
  std::deque<Reading> waiting_;
  std::vector<int> indices_;
  std::chrono::steady_clock::time_point told_;
  bool urgent_ = false;  // somebody waits for what there is to tell

  std::mutex wake_mutex_;
  std::function<void()> wake_;

  std::mutex mutex_;  // guards what follows: handed over between the engine's thread and the communication thread
  std::vector<Reading> asked_;
  std::vector<Answer> answers_;
  News news_;
  std::atomic<bool> have_news_{false};
  std::exception_ptr error_;
  NeighbourFigures figures_;
};

}  // namespace shoal
