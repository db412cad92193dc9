#include "bench/rank_reads.h"

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "bench/measurement.h"
#include "comm/arena_window.h"
#include "comm/communicator.h"
#include "comm/mpi_error.h"
#include "comm/neighbour_reads.h"
#include "store/error.h"
#include "store/record.h"

namespace shoal::bench {
namespace {

// Both ranks have `kRecords` records in their windows, listed; rank 0 reads those of rank 1.
constexpr NodeId kRecords = 512;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class Reader {
 public:
  Reader(Communicator& ranks, const StateLayout& layout, HostReads path)
      : ranks_(ranks),
        record_bytes_(layout.record_bytes(Part::kPublic)),
        window_(ranks, NeighbourReads::head_bytes(kRecords) + kRecords * record_bytes_, path, 1 << 30),
        reads_(ranks, window_, {guests(1 - ranks.rank()), std::vector<NodeId>(2, kRecords), layout}) {
    for (NodeId node = 0; node < kRecords; ++node) {
      std::byte* const record = reads_.arena().data() + node * record_bytes_;
      std::memset(payload(record), static_cast<int>(node % 250) + 1, layout.payload_bytes(Part::kPublic));
      seal(record, {Part::kPublic, node, 1}, record_bytes_, 7);
    }
    reads_.connect(7);
    reads_.expect(std::vector<Version>(kRecords, 1));
    reads_.set_wake([this] {
      woken_ = true;
      woken_.notify_one();
    });
  }
  ~Reader() { reads_.set_wake({}); }

  // Both ranks, before each time that all records are read: they stay where they are for a round, as in a run with RAM
  // for all of them. The other rank may still be reading in the round before.
  void begin_round() {
    ranks_.barrier();
    ++round_;
    for (NodeId node = 0; node < kRecords; ++node) {
      DirectoryEntry& entry = reads_.directory()[node];
      entry.place = next_place(entry.place, node * record_bytes_, round_mark(round_));
      entry.version = 1;
    }
    ranks_.barrier();
  }

  bool maps() const { return window_.mapped(1 - ranks_.rank()) != nullptr; }

  // With a caller in the place of the engine: it hands over frames, sleeps, and is told of arrivals.
  double neighbour_reads(std::byte* frames) {
    return seconds_of([&] {
      std::vector<std::uint32_t> free(kFrames);
      std::iota(free.begin(), free.end(), 0U);
      NodeId next = 0;
      PeerLink::News news;
      while (next < kRecords || free.size() < kFrames) {
        while (next < kRecords && !free.empty()) {
          const std::uint32_t frame = free.back();
          if (!reads_.fetch(frame, next, round_, frames + frame * record_bytes_)) free.pop_back();
          ++next;
        }
        if (free.size() == kFrames) continue;
        if (!reads_.has_news()) {
          woken_.wait(false);
          woken_ = false;
        }
        reads_.collect(news);
        free.insert(free.end(), news.arrived.begin(), news.arrived.end());
      }
    });
  }

  double bare(std::byte* frames, NodeId under_way) {
    return seconds_of([&] {
      ranks_.run([&] {
        std::vector<MPI_Request> requests(under_way, MPI_REQUEST_NULL);
        for (NodeId node = 0; node < kRecords; ++node) {
          MPI_Request& request = requests[node % under_way];
          check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
          window_.get(1 - ranks_.rank(), NeighbourReads::head_bytes(kRecords) + node * record_bytes_,
                      {frames + node % kFrames * record_bytes_, record_bytes_}, &request);
        }
        check(MPI_Waitall(static_cast<int>(under_way), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
        return true;
      });
    });
  }

  // 18 MiB of records: a run of LeNet-5 reads 12 to 32 ahead, and has them on their way when it waits for its
  // neighbours. One that does not has 7 as a rule.
  static constexpr NodeId kFrames = 72;

 private:
  static std::vector<NeighbourReads::Guest> guests(unsigned owner) {
    std::vector<NeighbourReads::Guest> all;
    for (NodeId node = 0; node < kRecords; ++node) all.push_back({owner, node});
    return all;
  }

  Communicator& ranks_;
  const std::uint64_t record_bytes_;
  ArenaWindow window_;
  NeighbourReads reads_;
  std::uint64_t round_ = 0;
  std::atomic<bool> woken_{false};
};

// Then the other rank's communication thread naps as long as it does while something is under way.
void let_it_settle() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }

}  // namespace

std::vector<ReadSpeeds> measure_reads(unsigned repeats) {
  Communicator ranks;
  if (ranks.size() != 2) {
    throw Error("--reads is for two ranks: mpirun -np 2 shoal-rank-bench --reads", ExitCode::kUsage);
  }
  const StateLayout layout({{"parameters", DType::kFloat32, {61706}, Part::kPublic},
                            {"momentum", DType::kFloat32, {61706}, Part::kPrivate}});
  const std::uint64_t record_bytes = layout.record_bytes(Part::kPublic);
  const double bytes = static_cast<double>(kRecords) * static_cast<double>(record_bytes);
  std::vector<ReadSpeeds> paths;
  for (const HostReads path : {HostReads::kMapped, HostReads::kOneSided}) {
    Reader reader(ranks, layout, path);
    if (path == HostReads::kMapped && !reader.maps()) continue;  // on different hosts
    // At the start of a page, as the store's are: copies are at twice the speed then.
    std::vector<std::byte> memory(Reader::kFrames * record_bytes + kBlockBytes);
    const auto address = reinterpret_cast<std::uint64_t>(memory.data());
    std::byte* const frames = memory.data() + (round_up(address, kBlockBytes) - address);
    std::vector<double> reads;
    std::vector<double> one;
    std::vector<double> many;
    for (unsigned repeat = 0; repeat <= repeats; ++repeat) {
      reader.begin_round();
      if (!ranks.first()) continue;
      const auto timed = [&](std::vector<double>& speeds, double seconds) {
        if (repeat > 0) speeds.push_back(bytes / seconds / 1e9);  // the first touches the pages
        let_it_settle();
      };
      let_it_settle();
      timed(reads, reader.neighbour_reads(frames));
      timed(one, reader.bare(frames, 1));
      timed(many, reader.bare(frames, 16));
    }
    ranks.barrier();
    if (!ranks.first()) continue;
    const auto ratio = [&](const std::vector<double>& bare) {
      std::vector<double> ratios;
      for (std::size_t i = 0; i < reads.size(); ++i) ratios.push_back(reads[i] / bare[i]);
      return median(ratios);
    };
    paths.push_back({path == HostReads::kMapped ? "through the mapping" : "one-sided", median(reads), median(one),
                     median(many), ratio(one), ratio(many)});
  }
  return paths;
}

}  // namespace shoal::bench
