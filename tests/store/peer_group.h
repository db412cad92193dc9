// Stores of several ranks in one process, joined the way comm/ joins them: each has a thread that plays its
// communication thread, reads the others' directories and arenas, asks their engines, and lets go.
//
// A population's nodes are split over the ranks; to each rank's store, all nodes of the others are guests.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "store/access_plan.h"
#include "store/peer_link.h"
#include "store/store_options.h"

namespace shoal::testing {

enum class ReadPath {
  kMapped,    // the directory, on the engine's thread, checked by looking again; what is not there is asked for
  kOneSided,  // the directory, on the communication thread
  kAsk,       // nothing is looked for, everything asked for
};

struct PeerSettings {
  ReadPath path = ReadPath::kMapped;
  bool delays = false;  // messages wait, and overtake each other
  std::uint64_t seed = 1;
  std::uint64_t most_in_place = 1'000'000;  // reads at a time
};

class PeerGroup;

class InProcessPeer final : public PeerLink {
 public:
  InProcessPeer(PeerGroup& group, unsigned rank, const PeerSettings& settings);
  void stop();  // before any of the group goes

  // Before a round: the version of every guest; empty: any.
  void expect(std::vector<Version> versions) { versions_ = std::move(versions); }
  std::uint64_t asks() const { return asks_; }
  std::uint64_t read_in_place() const { return in_place_; }  // uses
  std::uint64_t being_read_in_place() const { return being_read_in_place_.size(); }

  bool fetch(std::uint32_t frame, NodeId guest, std::uint64_t round, std::byte* record) override;
  const std::byte* in_place(NodeId guest, std::uint64_t round, bool first) override;
  void out_of_place(NodeId guest, const std::byte* record) override;
  void serve(const ServeRequest& request, std::uint32_t place, Version version, std::uint64_t offset) override;
  bool has_news() override { return have_news_; }
  void collect(News& news) override;
  void verify(NodeId guest, const std::byte* record) const override;
  void set_wake(std::function<void()> wake) override;

 private:
  struct Reading {
    std::uint32_t frame = 0;
    NodeId guest = kNoNode;
    std::byte* record = nullptr;
    Version wanted = kAnyVersion;
  };
  struct Event {
    std::uint64_t reading = 0;
    bool ready = false;  // the owner has it in a frame; otherwise: to be begun
    std::uint32_t place = 0;
    Version version = 0;
    std::uint64_t offset = 0;
  };

  void run();
  void post(const Event& event);
  void tell(const std::function<void(News&)>& change);
  bool read_listed(const Reading& reading);
  void begin(const Event& event, const Reading& reading);
  void served(const Event& event, const Reading& reading);
  void arrived(std::uint64_t ticket, std::uint32_t frame);

  PeerGroup& group_;
  const unsigned rank_;
  const PeerSettings settings_;
  std::vector<Version> versions_;
  std::atomic<std::uint64_t> asks_{0};
  std::atomic<std::uint64_t> in_place_{0};
  std::multiset<const std::byte*> being_read_in_place_;
  std::atomic<bool> have_news_{false};

  std::mutex wake_mutex_;
  std::function<void()> wake_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Event> events_;
  std::map<std::uint64_t, Reading> readings_;
  std::uint64_t tickets_ = 0;
  News news_;
  std::string wrong_;
  bool stop_ = false;
  std::thread thread_;
};

class PeerGroup {
 public:
  // `owner`: the rank of every node. Every rank has one at least.
  PeerGroup(std::vector<unsigned> owner, unsigned ranks, const PeerSettings& settings);
  ~PeerGroup();

  unsigned ranks() const { return static_cast<unsigned>(ranks_.size()); }
  // Nodes of the population by their number in the rank's store: its own, then its guests.
  const std::vector<NodeId>& names(unsigned rank) const { return ranks_[rank].names; }
  NodeId own(unsigned rank) const { return ranks_[rank].own; }
  InProcessPeer& peer(unsigned rank) { return *ranks_[rank].peer; }

  // Sets what makes the rank's store one of this group. nodes and guests first, since the RAM depends on them.
  void count(unsigned rank, StoreOptions& options) const;
  void join(unsigned rank, StoreOptions& options);
  void connect(unsigned rank, std::uint64_t store_id) { ranks_[rank].store_id = store_id; }

  // The rank's part of a round of the population.
  enum class Hold { kWhatOthersRead, kNothing };
  std::shared_ptr<const AccessPlan> share(const AccessPlan& round, unsigned rank,
                                          Hold hold = Hold::kWhatOthersRead) const;

 private:
  friend class InProcessPeer;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  struct Rank {
    std::vector<NodeId> names;
    NodeId own = 0;
    std::unique_ptr<std::byte[], Free> arena;
    std::vector<DirectoryEntry> directory;
    std::uint64_t store_id = 0;
    std::uint64_t record_bytes = 0;
    std::unique_ptr<InProcessPeer> peer;
  };

  const std::vector<unsigned> owner_;
  std::vector<NodeId> local_;  // of every node, in its owner's store
  std::vector<Rank> ranks_;
  const PeerSettings settings_;
};

// Every rank has one node at least.
std::vector<unsigned> random_owners(NodeId nodes, unsigned ranks, std::mt19937_64& random);

// Ends the process with a message when a test does not come to its end: stores that wait for each other cannot even be
// destroyed.
class Watchdog {
 public:
  explicit Watchdog(std::string what, unsigned seconds = 900);
  ~Watchdog();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace shoal::testing
