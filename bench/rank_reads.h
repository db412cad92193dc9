// Reads of another rank's records, as the engine makes them, against bare loops of MPI_Rget over the same window.
#pragma once

#include <string>
#include <vector>

namespace shoal::bench {

struct ReadSpeeds {
  std::string path;   // that the records took
  double reads = 0;   // GB/s
  double one = 0;     // MPI_Rget, one after the other
  double many = 0;    // and 16 of them under way
  double to_one = 0;  // medians of the ratios, turn by turn
  double to_many = 0;
};

// For each of two ranks that a launcher has started; the figures are rank 0's, others have none.
std::vector<ReadSpeeds> measure_reads(unsigned repeats);

}  // namespace shoal::bench
