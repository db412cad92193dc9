// What the cold tier's files move for the records that go to it and come from it, and what they take: compressed, and
// written again and again by RocksDB's compactions.
#pragma once

#include "planner/run_description.h"

namespace shoal {

// All bytes that are given are records', before compression.
struct ColdMoves {
  double bytes_read = 0;
  double bytes_written = 0;
};
// In the tier's stride.
ColdMoves cold_moves(const RunDescription& run, double put, double got);
// From an empty tier to one in which so much is alive: while there is little in it, there is little to compact.
ColdMoves cold_moves_at_first(const RunDescription& run, double put, double got, double alive);

// Of the files, with records that were replaced and are not compacted away yet.
double cold_file_bytes(const RunDescription& run, double put, double alive);

}  // namespace shoal
