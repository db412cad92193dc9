// The other ranks, and the one thread that speaks to them.
//
// One communication thread per rank makes every MPI call, from MPI_Init to MPI_Finalize. Other threads hand it tasks
// and sleep; it polls what is under way, so that a rank whose workers compute still answers, and naps when nothing
// moves, so that the workers keep the cores. A process that no launcher started is a rank alone: it makes no MPI call
// at all.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "store/error.h"

namespace shoal {

class CommService;
class CommThread;

// This process among the ranks.
struct RankPlace {
  unsigned rank = 0;
  unsigned size = 1;
  unsigned local_rank = 0;
  unsigned local_size = 1;
  unsigned on_these_cores = 1;
  unsigned hosts = 1;
  unsigned host_leader = 0;
  std::string host;
};

class Communicator {
 public:
  // Joins the ranks that a launcher (mpirun, srun) started with this one, if any. `most_bytes`: that go in one piece.
  explicit Communicator(std::size_t most_bytes = std::size_t{1} << 30);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  unsigned rank() const { return place_.rank; }
  unsigned size() const { return place_.size; }
  unsigned local_rank() const { return place_.local_rank; }  // among the ranks of this host
  unsigned local_size() const { return place_.local_size; }
  unsigned on_these_cores() const { return place_.on_these_cores; }  // of those, that may run where this one may
  unsigned hosts() const { return place_.hosts; }
  unsigned host_leader() const { return place_.host_leader; }  // the lowest rank of this host
  const std::string& host() const { return place_.host; }
  std::string name() const;  // "rank 3 on node17"
  bool alone() const { return place_.size == 1; }
  bool first() const { return place_.rank == 0; }
  double cpu_seconds();                                    // that the communication thread has used; 0: alone
  const std::string& remarks() const { return remarks_; }  // about the launch, for people; may be empty

  // Collectives: all ranks call the same ones in the same order, from one thread at a time.
  void barrier();
  // Where a rank has an error, nobody goes on: that rank throws it, and the others wait until it has ended them.
  void agree(const std::exception_ptr& error);
  // Element by element, wrapping around: exact, so the sum has the same bits for any number of ranks.
  void sum(std::span<std::int64_t> values);
  void sum_at_first(std::span<std::int64_t> values);  // the other ranks' values stay as they are
  std::int64_t least(std::int64_t value);
  // What every rank gave, by rank: on rank 0, and on all.
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes);
  std::vector<std::vector<std::byte>> gather_everywhere(std::span<const std::byte> bytes);
  std::vector<std::byte> broadcast(std::vector<std::byte> bytes);  // rank 0's

  // Ends all ranks: rank 0 prints the first such message, once, and the launcher returns the exit code. From any
  // thread, whatever the others wait for; does not return unless the rank is alone.
  void fail(const std::string& message, ExitCode code);
  // Other ranks' message, when one ends the run, comes here too, on the communication thread.
  void on_failure(std::function<void(const std::string& message)> hear);

  // For comm/ alone. run() returns when `poll` has returned true; it is called on the communication thread, again and
  // again, and must not wait. Where MPI leaves no other way, a barrier() goes before: while rank 0 waits in MPI itself,
  // it does not hear of a rank that will never come.
  void run(std::function<bool()> poll);
  void add(CommService* service);
  void remove(CommService* service);
  void kick();  // there is something to poll

 private:
  template <typename Start>
  void sum_in_pieces(std::span<std::int64_t> values, const Start& start);

  std::vector<std::int64_t> sizes_of(std::size_t own);  // of every rank
  void give_all(std::span<std::byte> bytes, unsigned from);

  const std::size_t most_bytes_;
  RankPlace place_;
  std::string remarks_;
  std::atomic<bool> failing_{false};
  std::unique_ptr<CommThread> thread_;  // null: alone
};

}  // namespace shoal
