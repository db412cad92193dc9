// shoal-rank-bench: two ranks against one with two threads, and reads of other ranks' records against a bare MPI_Rget
// loop over the same window.
#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench/bench_directory.h"
#include "bench/child_process.h"
#include "bench/command_line.h"
#include "bench/measurement.h"
#include "bench/train_run.h"
#include "comm/arena_window.h"
#include "comm/communicator.h"
#include "comm/mpi_error.h"
#include "comm/neighbour_reads.h"
#include "store/error.h"
#include "store/record.h"

namespace shoal::bench {
namespace {

using Json = nlohmann::json;

constexpr const char* kDescription =
    R"(shoal-rank-bench measures what several ranks cost on this machine.

  training   shoal-train, the same work: 1 rank with 2 threads, and 2 ranks with 1 thread each
  reads      records of another rank: through the shared mapping, with MPI_Rget, and both against a bare loop of
             MPI_Rget over the same window

All are run --repeats times in turn, training in one order and in the other, each after a rest of --rest seconds (see
shoal-train-bench --help); the figures are medians, and medians of the ratios run by run.)";

struct Options {
  std::string model = "lenet5";
  unsigned nodes = 400;
  unsigned rounds = 4;
  std::string graph = "random-regular:8";
  std::string ram = "4GiB";
  unsigned repeats = 5;
  unsigned rest_seconds = 15;
  std::optional<std::filesystem::path> directory;
  bool reads_only = false;  // this process is a rank of the second part
};

std::vector<std::string> mpirun(unsigned ranks) {
  return {"mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", std::to_string(ranks)};
}

Json train(const Options& options, unsigned ranks, const std::filesystem::path& folder) {
  return train_run(
      {"--model", options.model, "--nodes", std::to_string(options.nodes), "--rounds", std::to_string(options.rounds),
       "--graph", options.graph, "--ram", options.ram, "--threads", std::to_string(2 / ranks)},
      folder, ranks > 1 ? mpirun(ranks) : std::vector<std::string>());
}

void compare_training(const Options& options, const std::filesystem::path& folder) {
  std::map<unsigned, std::vector<double>> speeds;
  std::vector<double> ratios;
  std::map<unsigned, Json> last;
  for (unsigned repeat = 0; repeat < options.repeats; ++repeat) {
    for (const unsigned turn : {1U, 2U}) {
      const unsigned ranks = repeat % 2 == 0 ? turn : 3 - turn;
      ::sleep(options.rest_seconds);
      last[ranks] = train(options, ranks, folder);
      speeds[ranks].push_back(last[ranks]["node_steps_per_second"].get<double>());
      fmt::print(stderr, "{}/{} {} x {} {:8.1f} node-steps/s\n", repeat + 1, options.repeats, ranks, 2 / ranks,
                 speeds[ranks].back());
    }
    ratios.push_back(speeds[2].back() / speeds[1].back());
    if (last[1]["state_hash"] != last[2]["state_hash"]) throw Error("one and two ranks computed different states");
  }
  fmt::print("{:<22}{:>14}{:>8}{:>10}{:>8}{:>10}{:>13}{:>12}\n", "training", "node-steps/s", "ratio", "compute", "mix",
             "store", "neighbours", "remote");
  for (const unsigned ranks : {1U, 2U}) {
    const Json& s = last[ranks];
    const double rounds = options.rounds;
    fmt::print("{:<22}{:>14.1f}{:>8.3f}{:>8.3f} s{:>6.3f} s{:>8.3f} s{:>11.3f} s{:>10.1f} MB\n",
               fmt::format("{} rank{} x {} thread{}", ranks, ranks > 1 ? "s" : "", 2 / ranks, ranks > 1 ? "" : "s"),
               median(speeds[ranks]), ranks == 1 ? 1.0 : median(ratios), s["compute_seconds"].get<double>() / rounds,
               s["mix_seconds"].get<double>() / rounds, s["stall_seconds"]["store"].get<double>() / rounds,
               s["stall_seconds"]["neighbours"].get<double>() / rounds, s["remote_bytes"].get<double>() / rounds / 1e6);
  }
  fmt::print("(seconds and bytes: per round, of the last repeat)\n\n");
}

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
  // for all of them.
  void begin_round() {
    ++round_;
    for (NodeId node = 0; node < kRecords; ++node) {
      DirectoryEntry& entry = reads_.directory()[node];
      entry.place = next_place(entry.place, node * record_bytes_, round_mark(round_));
      entry.version = 1;
    }
    ranks_.barrier();
  }

  // As many on their way as in a run of LeNet-5 with RAM for all of it: 7 as a rule, 17 in one of ten, 38 at most.
  double neighbour_reads(std::byte* frames) {
    return seconds_of([&] {
      NodeId next = 0;
      NodeId flying = 0;
      PeerLink::News news;
      while (next < kRecords || flying > 0) {
        while (next < kRecords && flying < kFlying) {
          if (!reads_.fetch(next, next, round_, frames + (next % kFlying) * record_bytes_)) ++flying;
          ++next;
        }
        if (flying == 0) continue;
        if (!reads_.has_news()) {
          woken_.wait(false);
          woken_ = false;
        }
        reads_.collect(news);
        flying -= static_cast<NodeId>(news.arrived.size());
      }
    });
  }

  double bare(std::byte* frames) {
    return seconds_of([&] {
      ranks_.run([&] {
        std::vector<MPI_Request> requests(kFlying, MPI_REQUEST_NULL);
        for (NodeId node = 0; node < kRecords; ++node) {
          MPI_Request& request = requests[node % kFlying];
          check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
          window_.get(1 - ranks_.rank(), NeighbourReads::head_bytes(kRecords) + node * record_bytes_,
                      {frames + (node % kFlying) * record_bytes_, record_bytes_}, &request);
        }
        check(MPI_Waitall(kFlying, requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
        return true;
      });
    });
  }

  static constexpr NodeId kFlying = 16;

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

int read_as_rank(const Options& options) {
  Communicator ranks;
  if (ranks.size() != 2) throw Error("--reads is for two ranks", ExitCode::kUsage);
  const StateLayout layout({{"parameters", DType::kFloat32, {61706}, Part::kPublic},
                            {"momentum", DType::kFloat32, {61706}, Part::kPrivate}});
  const double bytes = static_cast<double>(kRecords) * static_cast<double>(layout.record_bytes(Part::kPublic));
  if (ranks.first()) {
    fmt::print("{:<22}{:>10}{:>16}{:>8}\n", "reads of 247 KB", "GB/s", "bare MPI_Rget", "ratio");
  }
  for (const HostReads path : {HostReads::kMapped, HostReads::kOneSided}) {
    Reader reader(ranks, layout, path);
    // At the start of a page, as the store's are: copies are at twice the speed then.
    std::vector<std::byte> memory(Reader::kFlying * layout.record_bytes(Part::kPublic) + kBlockBytes);
    const auto address = reinterpret_cast<std::uint64_t>(memory.data());
    std::byte* const frames = memory.data() + (round_up(address, kBlockBytes) - address);
    std::vector<double> ours;
    std::vector<double> bare;
    std::vector<double> ratios;
    for (unsigned repeat = 0; repeat <= options.repeats; ++repeat) {
      reader.begin_round();
      if (ranks.first()) {
        const double reads = reader.neighbour_reads(frames);
        const double plain = reader.bare(frames);
        if (repeat > 0) {  // the first touches the pages
          ours.push_back(bytes / reads / 1e9);
          bare.push_back(bytes / plain / 1e9);
          ratios.push_back(plain / reads);
        }
      }
    }
    ranks.barrier();
    if (ranks.first()) {
      fmt::print("{:<22}{:>10.1f}{:>16.1f}{:>8.3f}\n", path == HostReads::kMapped ? "through the mapping" : "one-sided",
                 median(ours), median(bare), median(ratios));
    }
  }
  return 0;
}

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app(kDescription, "shoal-rank-bench");
  app.option_defaults()->always_capture_default();
  app.add_option("--model", options.model, "shoal-train's");
  app.add_option("--nodes", options.nodes, "shoal-train's");
  app.add_option("--rounds", options.rounds, "shoal-train's");
  app.add_option("--graph", options.graph, "shoal-train's");
  app.add_option("--ram", options.ram, "shoal-train's, of each rank");
  app.add_option("--repeats", options.repeats, "Times that everything is run, in turn");
  app.add_option("--rest", options.rest_seconds, "Seconds before each training in which the machine settles");
  app.add_option("--dir", options.directory, "Folder to work in [a temporary one]");
  app.add_flag("--reads", options.reads_only, "Be one of two ranks that measure reads")->group("");
  if (!parse(app, argc, argv)) return 0;
  if (options.repeats == 0) throw Error("--repeats: at least 1", ExitCode::kUsage);
  if (options.reads_only) return read_as_rank(options);
  throw_on_interrupt();
  const BenchDirectory directory(options.directory);
  compare_training(options, directory.path() / "run");
  std::vector<std::string> command = mpirun(2);
  command.insert(command.end(), {this_program().string(), "--reads", "--repeats", std::to_string(options.repeats)});
  fmt::print("{}", run_program(command));
  return 0;
}

}  // namespace
}  // namespace shoal::bench

int main(int argc, char** argv) {
  return shoal::bench::run_main("shoal-rank-bench", [&] { return shoal::bench::main_of(argc, argv); });
}
