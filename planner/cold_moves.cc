#include "planner/cold_moves.h"

#include <algorithm>

#include "store/cold_tier.h"

namespace shoal {
namespace {

// zstd over byte-shuffled trained weights.
constexpr double kCompression = 1.14;
// How often a byte is written, the first time included: measured in a dozen runs, with tiers of 90 to 250 MiB and 8 MiB
// for RocksDB, whose files have 2 MiB then. Compactions come when there is time: the same run, made twice, differs.
constexpr double kTimesWritten = 10.5;
// With a checkpoint every e rounds less, e / (e + this): measured for 2 and 4.
constexpr double kCheckpointsSpare = 1.2;
constexpr double kReadToWrite = 0.95;  // bytes that compactions read, to all that are written
constexpr double kDeadPieces = 256;    // of replaced records, in the mean of the same runs

double with_dead(const RunDescription& run, double put, double alive) {
  const auto piece =
      static_cast<double>(std::min<std::uint64_t>(run.store.layout.record_bytes(Part::kPublic), ColdTier::kPieceBytes));
  return alive + std::min(std::max(0.0, put - alive), kDeadPieces * piece);
}

}  // namespace

ColdMoves cold_moves(const RunDescription& run, double put, double got) {
  const auto every = static_cast<double>(run.checkpoint_every);
  const double times = kTimesWritten * (every > 0 ? every / (every + kCheckpointsSpare) : 1);
  const double written = times * put / kCompression;
  return {got / kCompression + kReadToWrite * written, written};
}

ColdMoves cold_moves_at_first(const RunDescription& run, double put, double got, double alive) {
  return cold_moves(run, put - with_dead(run, put, alive) / 2, got);
}

double cold_file_bytes(const RunDescription& run, double put, double alive) {
  return with_dead(run, put, alive) / kCompression;
}

}  // namespace shoal
